// What is known of a pointer: kinds, insides, ends.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kType = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
constexpr auto kNoAttribute = static_cast<CUpointer_attribute>(999);
constexpr auto kZero = static_cast<CUpointer_attribute>(0);
constexpr CUdeviceptr kNowhere = 0x40;

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUdeviceptr end(World& w) { return w.memory + World::kBytes; }

// cuPointerGetAttribute of a 4-byte attribute: success only when it has this value.
CUresult is(World& w, CUpointer_attribute which, CUdeviceptr of, unsigned wanted) {
  uint64_t data = 0;
  const CUresult result = w.cu->cuPointerGetAttribute(&data, which, of);
  return result != kOk || static_cast<unsigned>(data) == wanted ? result : kNotFound;
}
CUresult is_address(World& w, CUpointer_attribute which, CUdeviceptr of, uint64_t wanted) {
  uint64_t data = 0;
  const CUresult result = w.cu->cuPointerGetAttribute(&data, which, of);
  return result != kOk || data == wanted ? result : kNotFound;
}

// cuPointerGetAttributes of the type and the ordinal.
CUresult both(World& w, CUdeviceptr of, unsigned wanted_type, int wanted_ordinal) {
  unsigned type = 77;
  int ordinal = 77;
  CUpointer_attribute which[] = {kType, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* data[] = {&type, &ordinal};
  const CUresult result = w.cu->cuPointerGetAttributes(2, which, data, of);
  return result != kOk || (type == wanted_type && ordinal == wanted_ordinal) ? result : kNotFound;
}

#define KIND(want, what, ...) STEPS(kReady, want, kDocumented, what, { return __VA_ARGS__; })

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuPointerGetAttribute(&w.ull, kType, kNowhere)),
    STEPS(kFresh, kNotInit, kOurs, "cuPointerGetAttributes", { return both(w, kNowhere, 0, 0); }),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(nullptr, kType, w.memory)),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(&w.ull, kNoAttribute, w.memory)),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(&w.ull, kZero, w.memory)),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(&w.ull, kType, kNowhere)),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(&w.ull, kType, 0)),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(&w.ull, kType, w.freed)),
    ROW(kReady, kValue, kDocumented, cuPointerGetAttribute(&w.ull, kType, end(w))),
    ROW(kReady, kValue, kDocumented,
        cuPointerGetAttribute(&w.ull, kType, address(w.pageable.data()))),
    ROW(kReady, kValue, kDocumented,
        cuPointerGetAttribute(&w.ull, CU_POINTER_ATTRIBUTE_HOST_POINTER, w.memory)),
    ROW(kReady, kValue, kDocumented,
        cuPointerGetAttribute(&w.ull, CU_POINTER_ATTRIBUTE_IS_MANAGED, kNowhere)),
    ROW(kReady, kValue, kDocumented,
        cuPointerGetAttribute(&w.ull, CU_POINTER_ATTRIBUTE_CONTEXT, kNowhere)),
    KIND(kOk, "type of device memory", is(w, kType, w.memory, CU_MEMORYTYPE_DEVICE)),
    KIND(kOk, "type inside device memory", is(w, kType, end(w) - 1, CU_MEMORYTYPE_DEVICE)),
    KIND(kOk, "type of pinned memory", is(w, kType, address(w.pinned), CU_MEMORYTYPE_HOST)),
    KIND(kOk, "type inside pinned memory",
         is(w, kType, address(w.pinned) + World::kBytes - 1, CU_MEMORYTYPE_HOST)),
    KIND(kValue, "type past the end of pinned memory",
         is(w, kType, address(w.pinned) + World::kBytes, CU_MEMORYTYPE_HOST)),
    KIND(kOk, "type of registered memory", is(w, kType, address(w.registered), CU_MEMORYTYPE_HOST)),
    KIND(kOk, "type inside registered memory",
         is(w, kType, address(w.registered) + 8191, CU_MEMORYTYPE_HOST)),
    KIND(kValue, "type past the end of registered memory",
         is(w, kType, address(w.registered) + 8192, CU_MEMORYTYPE_HOST)),
    KIND(kOk, "context of device memory",
         is_address(w, CU_POINTER_ATTRIBUTE_CONTEXT, w.memory, address(w.context))),
    KIND(kOk, "context of pinned memory",
         is_address(w, CU_POINTER_ATTRIBUTE_CONTEXT, address(w.pinned), address(w.context))),
    KIND(kOk, "device pointer inside device memory",
         is_address(w, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, w.memory + 9, w.memory + 9)),
    KIND(kOk, "host pointer inside pinned memory",
         is_address(w, CU_POINTER_ATTRIBUTE_HOST_POINTER, address(w.pinned) + 9,
                    address(w.pinned) + 9)),
    KIND(kOk, "host pointer of registered memory",
         is_address(w, CU_POINTER_ATTRIBUTE_HOST_POINTER, address(w.registered),
                    address(w.registered))),
    KIND(kOk, "start of device memory",
         is_address(w, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, end(w) - 1, w.memory)),
    KIND(kOk, "size of device memory",
         is_address(w, CU_POINTER_ATTRIBUTE_RANGE_SIZE, end(w) - 1, World::kBytes)),
    KIND(kOk, "device memory is not managed", is(w, CU_POINTER_ATTRIBUTE_IS_MANAGED, w.memory, 0)),
    KIND(kOk, "device memory is mapped", is(w, CU_POINTER_ATTRIBUTE_MAPPED, w.memory, 1)),
    KIND(kOk, "ordinal of device memory", is(w, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, w.memory, 0)),
    STEPS(kReady, kOk, kDocumented, "buffer ids differ and are not used again",
          {
            unsigned long long first = 0, second = 0;  // NOLINT(google-runtime-int)
            const auto which = CU_POINTER_ATTRIBUTE_BUFFER_ID;
            CUresult result = w.cu->cuMemAlloc_v2(&w.p, 4096);
            if (result == kOk) result = w.cu->cuPointerGetAttribute(&first, which, w.p);
            (void)w.cu->cuMemFree_v2(w.p);
            if (result == kOk) result = w.cu->cuMemAlloc_v2(&w.p, 4096);
            if (result == kOk) result = w.cu->cuPointerGetAttribute(&second, which, w.p);
            (void)w.cu->cuMemFree_v2(w.p);
            return result != kOk || (first != second && first != 0) ? result : kNotFound;
          }),
    STEPS(kReady, kValue, kDocumented, "cuPointerGetAttributes without attributes",
          {
            void* data[] = {&w.ull};
            return w.cu->cuPointerGetAttributes(1, nullptr, data, w.memory);
          }),
    STEPS(kReady, kValue, kDocumented, "cuPointerGetAttributes without data",
          {
            CUpointer_attribute which[] = {kType};
            return w.cu->cuPointerGetAttributes(1, which, nullptr, w.memory);
          }),
    STEPS(kReady, kValue, kDocumented, "cuPointerGetAttributes of an unknown attribute",
          {
            CUpointer_attribute which[] = {kNoAttribute};
            void* data[] = {&w.ull};
            return w.cu->cuPointerGetAttributes(1, which, data, w.memory);
          }),
    KIND(kOk, "both of device memory", both(w, w.memory, CU_MEMORYTYPE_DEVICE, 0)),
    KIND(kOk, "both of pinned memory", both(w, address(w.pinned), CU_MEMORYTYPE_HOST, 0)),
    KIND(kOk, "both of registered memory", both(w, address(w.registered), CU_MEMORYTYPE_HOST, 0)),
    KIND(kOk, "both of pageable memory", both(w, address(w.pageable.data()), 0, CU_DEVICE_INVALID)),
    KIND(kOk, "both of no address", both(w, 0, 0, CU_DEVICE_INVALID)),
    KIND(kOk, "both of freed memory", both(w, w.freed, 0, CU_DEVICE_INVALID)),
    KIND(kOk, "both past the end", both(w, end(w), 0, CU_DEVICE_INVALID)),
    STEPS(kReady, kOk, kDocumented, "type of a module's variable",
          {
            (void)w.cu->cuModuleGetGlobal_v2(&w.p, nullptr, w.module, "counter");
            return is(w, kType, w.p + 3, CU_MEMORYTYPE_DEVICE);
          }),
    STEPS(kReady, kOk, kDocumented, "context of another context's memory",
          {
            (void)w.cu->cuCtxPushCurrent_v2(w.other);
            (void)w.cu->cuMemAlloc_v2(&w.p, 4096);
            (void)w.cu->cuCtxPopCurrent_v2(nullptr);
            const CUresult result =
                is_address(w, CU_POINTER_ATTRIBUTE_CONTEXT, w.p, address(w.other));
            (void)w.cu->cuMemFree_v2(w.p);
            return result;
          }),
    ROW(kForked, kNotInit, kOurs, cuPointerGetAttribute(&w.ull, kType, w.memory)),
};

}  // namespace

const std::span<const Row> kPointerRows = kRows;

}  // namespace vgpu::fidelity
