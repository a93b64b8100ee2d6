// Linear copies: ranges, sides, streams.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr CUdeviceptr kNowhere = 0x40;
constexpr size_t kAll = World::kBytes;

char* host(World& w) { return w.pageable.data(); }
CUdeviceptr pinned(World& w) { return reinterpret_cast<CUdeviceptr>(w.pinned); }

// A batch of one copy.
struct Batched {
  CUdeviceptr to = 0, from = 0;
  size_t bytes = 64;
  CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  unsigned flags = 0;
};
CUresult batch(World& w, Batched copy, CUstream stream) {
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = copy.order;
  attributes.flags = copy.flags;
  size_t start = 0;
  return w.cu->cuMemcpyBatchAsync_v2(&copy.to, &copy.from, &copy.bytes, 1, &attributes, &start, 1,
                                     stream);
}
CUresult batch(World& w, Batched copy) { return batch(w, copy, w.stream); }

constexpr auto kNoOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented,
        cuMemcpyBatchAsync_v2(nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, w.stream)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpy3DBatchAsync_v2(0, nullptr, 0, w.stream)),
    ROW(kNoContext, kContext, kDocumented,
        cuMemcpyBatchAsync_v2(nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, w.stream)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpy3DBatchAsync_v2(0, nullptr, 0, w.stream)),
    ROW(kReady, kValue, kDocumented,
        cuMemcpyBatchAsync_v2(nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, w.stream)),
    ROW(kReady, kValue, kDocumented,
        cuMemcpyBatchAsync_v2(&w.p, nullptr, &w.size, 1, nullptr, nullptr, 0, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpy3DBatchAsync_v2(1, nullptr, 0, w.stream)),
    ROW(kReady, kHandle, kDocumented, cuMemcpy3DBatchAsync_v2(1, nullptr, 0, w.stale_stream)),
    STEPS(kReady, kOk, kDocumented, "a batch",
          {
            return batch(w, {w.memory, pinned(w)});
          }),
    STEPS(kReady, kOk, kDocumented, "a batch in a stream of another context",
          {
            return batch(w, {w.memory, pinned(w)}, w.other_stream);
          }),
    STEPS(kReady, kHandle, kDocumented, "a batch in a stream that is gone",
          {
            return batch(w, {w.memory, pinned(w)}, w.stale_stream);
          }),
    STEPS(kReady, kValue, kDocumented, "a batch in the legacy stream",
          {
            return batch(w, {w.memory, pinned(w)}, nullptr);
          }),
    STEPS(kReady, kValue, kConfirmed, "a batch with an empty copy",
          {
            return batch(w, {w.memory, pinned(w), 0});
          }),
    STEPS(kReady, kValue, kDocumented, "a batch to nowhere",
          {
            return batch(w, {0, pinned(w)});
          }),
    STEPS(kReady, kValue, kDocumented, "a batch from nowhere",
          {
            return batch(w, {w.memory, 0});
          }),
    STEPS(kReady, kValue, kDocumented, "a batch beyond the end",
          {
            return batch(w, {w.memory + kAll - 63, pinned(w)});
          }),
    STEPS(kReady, kValue, kDocumented, "a batch without an order",
          {
            return batch(w, {w.memory, pinned(w), 64, kNoOrder});
          }),
    STEPS(kReady, kValue, kDocumented, "a batch with an order that is none",
          {
            return batch(w, {w.memory, pinned(w), 64, static_cast<CUmemcpySrcAccessOrder>(4)});
          }),
    STEPS(kReady, kValue, kDocumented, "a batch with unknown flags",
          {
            return batch(w, {w.memory, pinned(w), 64, CU_MEMCPY_SRC_ACCESS_ORDER_ANY, 2});
          }),
    STEPS(kDead, kDestroyed, kDocumented, "a batch in a destroyed context",
          {
            return batch(w, {kNowhere, kNowhere}, nullptr);
          }),
    STEPS(kFault, kIllegal, kDocumented, "a batch in a broken context",
          {
            return batch(w, {w.memory, pinned(w)});
          }),
    STEPS(kForked, kNotInit, kOurs, "a batch in the child of a fork",
          {
            return batch(w, {w.memory, pinned(w)});
          }),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpy(kNowhere, kNowhere, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyAsync(kNowhere, kNowhere, 4, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyHtoD_v2(kNowhere, &w, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyHtoDAsync_v2(kNowhere, &w, 4, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyDtoH_v2(&w, kNowhere, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyDtoHAsync_v2(&w, kNowhere, 4, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyDtoD_v2(kNowhere, kNowhere, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyDtoDAsync_v2(kNowhere, kNowhere, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpy(kNowhere, kNowhere, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyAsync(kNowhere, kNowhere, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyHtoD_v2(kNowhere, &w, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyHtoDAsync_v2(kNowhere, &w, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyDtoH_v2(&w, kNowhere, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyDtoHAsync_v2(&w, kNowhere, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyDtoD_v2(kNowhere, kNowhere, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemcpyDtoDAsync_v2(kNowhere, kNowhere, 4, nullptr)),

    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(kNowhere, host(w), 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(0, host(w), 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(w.memory, nullptr, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(w.memory, host(w), kAll + 1)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(w.memory + 1, host(w), kAll)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(w.memory + kAll - 3, host(w), 4)),
    ROW(kReady, kOk, kDocumented, cuMemcpyHtoD_v2(w.memory + kAll - 4, host(w), 4)),
    ROW(kReady, kOk, kDocumented, cuMemcpyHtoD_v2(w.memory, host(w), 0)),
    ROW(kReady, kOk, kDocumented, cuMemcpyHtoD_v2(pinned(w), host(w), 64)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoD_v2(w.freed, host(w), 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoH_v2(host(w), kNowhere, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoH_v2(host(w), 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoH_v2(nullptr, w.memory, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoH_v2(host(w), w.memory, kAll + 1)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoH_v2(host(w), w.memory + kAll - 3, 4)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoH_v2(host(w), w.memory + kAll - 4, 4)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoH_v2(host(w), w.memory, 0)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoH_v2(host(w), pinned(w), 64)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoH_v2(host(w), w.freed, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoD_v2(kNowhere, w.memory, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoD_v2(w.memory, kNowhere, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoD_v2(w.memory, w.memory + 64, kAll)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoD_v2(w.memory + 64, w.memory, kAll)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoD_v2(w.memory, w.memory + 64, 64)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoD_v2(w.memory, w.memory + 64, 0)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoD_v2(w.memory, pinned(w), 64)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoD_v2(pinned(w), w.memory, 64)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoD_v2(w.memory, w.freed, 64)),
    ROW(kReady, kValue, kDocumented, cuMemcpy(0, w.memory, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpy(w.memory, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpy(w.memory, pinned(w), kAll + 1)),
    ROW(kReady, kValue, kDocumented, cuMemcpy(w.memory + kAll - 3, pinned(w), 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpy(pinned(w), w.memory + kAll - 3, 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpy(pinned(w) + kAll - 3, w.memory, 4)),
    ROW(kReady, kOk, kDocumented, cuMemcpy(pinned(w), w.memory, kAll)),
    ROW(kReady, kOk, kDocumented, cuMemcpy(w.memory, reinterpret_cast<CUdeviceptr>(host(w)), 64)),
    ROW(kReady, kOk, kDocumented, cuMemcpy(w.memory, w.memory + 64, 0)),

    ROW(kReady, kHandle, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, host(w), 4, w.stale_stream)),
    ROW(kReady, kHandle, kDocumented, cuMemcpyDtoHAsync_v2(host(w), w.memory, 4, w.stale_stream)),
    ROW(kReady, kHandle, kDocumented,
        cuMemcpyDtoDAsync_v2(w.memory, w.memory + 64, 4, w.stale_stream)),
    ROW(kReady, kHandle, kDocumented, cuMemcpyAsync(w.memory, pinned(w), 4, w.stale_stream)),
    // The programming guide: copies succeed on streams of other devices, so of other contexts.
    ROW(kReady, kOk, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, host(w), 4, w.other_stream)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoHAsync_v2(host(w), w.memory, 4, w.other_stream)),
    ROW(kReady, kOk, kDocumented, cuMemcpyDtoDAsync_v2(w.memory, w.memory + 64, 4, w.other_stream)),
    ROW(kReady, kOk, kDocumented, cuMemcpyAsync(w.memory, pinned(w), 4, w.other_stream)),
    ROW(kReady, kHandle, kOurs,
        cuMemcpyHtoDAsync_v2(w.memory, host(w), 4, World::garbage<CUstream>())),
    ROW(kReady, kHandle, kOurs,
        cuMemcpyDtoHAsync_v2(host(w), w.memory, 4, World::garbage<CUstream>())),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoDAsync_v2(kNowhere, host(w), 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, host(w), kAll + 1, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, nullptr, 4, w.stream)),
    ROW(kReady, kOk, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, host(w), 0, w.stream)),
    ROW(kReady, kOk, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, w.pinned, kAll, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoHAsync_v2(host(w), kNowhere, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoHAsync_v2(host(w), w.memory, kAll + 1, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoHAsync_v2(nullptr, w.memory, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoDAsync_v2(w.memory, kNowhere, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoDAsync_v2(kNowhere, w.memory, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyDtoDAsync_v2(w.memory, w.freed, 64, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyAsync(w.memory, 0, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpyAsync(0, w.memory, 4, w.stream)),

    ROW(kDead, kDestroyed, kDocumented, cuMemcpyHtoD_v2(kNowhere, &w, 4)),
    ROW(kDead, kDestroyed, kDocumented, cuMemcpyDtoH_v2(&w, kNowhere, 4)),
    ROW(kDead, kDestroyed, kDocumented, cuMemcpyDtoD_v2(kNowhere, kNowhere, 4)),
    ROW(kDead, kDestroyed, kDocumented, cuMemcpyHtoDAsync_v2(kNowhere, &w, 4, nullptr)),
    ROW(kDead, kDestroyed, kDocumented, cuMemcpy(kNowhere, kNowhere, 4)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyHtoD_v2(w.memory, host(w), 4)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyDtoH_v2(host(w), w.memory, 4)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyDtoD_v2(w.memory, w.memory + 64, 4)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyHtoDAsync_v2(w.memory, host(w), 4, w.stream)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyDtoHAsync_v2(host(w), w.memory, 4, w.stream)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyAsync(w.memory, pinned(w), 4, w.stream)),
    ROW(kForked, kNotInit, kOurs, cuMemcpyHtoD_v2(w.memory, host(w), 4)),
    ROW(kForked, kNotInit, kOurs, cuMemcpyDtoH_v2(host(w), w.memory, 4)),
    ROW(kForked, kNotInit, kOurs, cuMemcpyAsync(w.memory, pinned(w), 4, w.stream)),
};

}  // namespace

const std::span<const Row> kMemcpyRows = kRows;

}  // namespace vgpu::fidelity
