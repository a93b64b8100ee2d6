// Tensor maps. What is in their bytes is the worker's driver's own business, so it writes them;
// device addresses are the same on both sides. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::driver {

using shim::Session;

namespace {

constexpr uint32_t kRankMax = 5, kPixelRankMin = 3;
constexpr uintptr_t kMapAlignment = 64;

bool writable(const CUtensorMap* map) {
  return map != nullptr && reinterpret_cast<uintptr_t>(map) % kMapAlignment == 0;
}

// A map is larger than what an answer holds: it is asked for in halves.
template <typename Answer, typename Args>
CUresult ask_for_map(Session& session, Op op, Args args, CUtensorMap* out) {
  CUtensorMap map = {};
  for (args.half = 0; args.half < 2; ++args.half) {
    Answer answer;
    if (CUresult r = session.ask(nullptr, op, args, &answer); r != CUDA_SUCCESS) return r;
    static_assert(2 * sizeof(answer.words) == sizeof(map));
    std::memcpy(reinterpret_cast<char*>(&map) + args.half * sizeof(answer.words), answer.words,
                sizeof(answer.words));
  }
  *out = map;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Session* session;
  if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
  if (!writable(out) || rank == 0 || rank > kRankMax || sizes == nullptr || box == nullptr ||
      steps == nullptr || (strides == nullptr && rank > 1))
    return CUDA_ERROR_INVALID_VALUE;
  wire::TensorMapTiledArgs args;
  args.address = reinterpret_cast<uint64_t>(address);
  args.type = static_cast<uint32_t>(type);
  args.rank = rank;
  args.interleave = static_cast<uint32_t>(interleave);
  args.swizzle = static_cast<uint32_t>(swizzle);
  args.promotion = static_cast<uint32_t>(promotion);
  args.fill = static_cast<uint32_t>(fill);
  for (uint32_t d = 0; d < rank; ++d) {
    args.sizes[d] = sizes[d];
    args.box[d] = box[d];
    args.steps[d] = steps[d];
    if (d > 0) args.strides[d - 1] = strides[d - 1];
  }
  return ask_for_map<wire::TensorMapTiledReply>(*session, Op::kTensorMapTiled, args, out);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Session* session;
  if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
  if (!writable(out) || rank < kPixelRankMin || rank > kRankMax || sizes == nullptr ||
      strides == nullptr || lower == nullptr || upper == nullptr || steps == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  wire::TensorMapPixelsArgs args;
  args.address = reinterpret_cast<uint64_t>(address);
  args.channels = channels;
  args.pixels = pixels;
  args.type = static_cast<uint32_t>(type);
  args.rank = rank;
  args.interleave = static_cast<uint32_t>(interleave);
  args.swizzle = static_cast<uint32_t>(swizzle);
  args.promotion = static_cast<uint32_t>(promotion);
  args.fill = static_cast<uint32_t>(fill);
  for (uint32_t d = 0; d < rank; ++d) {
    args.sizes[d] = sizes[d];
    args.steps[d] = steps[d];
    if (d > 0) args.strides[d - 1] = strides[d - 1];
    if (d + 2 >= rank) continue;
    args.lower[d] = lower[d];
    args.upper[d] = upper[d];
  }
  return ask_for_map<wire::TensorMapPixelsReply>(*session, Op::kTensorMapPixels, args, out);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  Session* session;
  if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
  if (!writable(map)) return CUDA_ERROR_INVALID_VALUE;
  wire::TensorMapMoveArgs args;
  args.address = reinterpret_cast<uint64_t>(address);
  std::memcpy(args.map, map, sizeof(*map));
  return ask_for_map<wire::TensorMapMoveReply>(*session, Op::kTensorMapMove, args, map);
}

}  // namespace vgpu::driver
