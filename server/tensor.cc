// Tensor maps: the driver writes what its kernels read. They name no object, only an address, which
// kernels may use anyway. SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

constexpr uint32_t kRankMax = 5, kPixelRankMin = 3;

// The half of the map that was asked for: all of it is larger than an answer.
template <typename Answer>
bool answer(Session& session, const Record& record, CUresult result, const CUtensorMap& map,
            uint32_t half) {
  Answer reply;
  static_assert(2 * sizeof(reply.words) == sizeof(map));
  std::memcpy(reply.words, reinterpret_cast<const char*>(&map) + half * sizeof(reply.words),
              sizeof(reply.words));
  return session.complete(record, result, &reply, sizeof(reply));
}

}  // namespace

bool handle_TensorMapTiled(Session& session, const wire::TensorMapTiledArgs& args,
                           const Record& record) {
  if (args.rank == 0 || args.rank > kRankMax || args.half > 1)
    return session.malformed(record, "tensor's rank");
  const auto encode = session.driver().cuTensorMapEncodeTiled;
  if (encode == nullptr) return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  CUtensorMap map = {};
  const CUresult result =
      encode(&map, static_cast<CUtensorMapDataType>(args.type), args.rank,
             reinterpret_cast<void*>(args.address), args.sizes, args.strides, args.box, args.steps,
             static_cast<CUtensorMapInterleave>(args.interleave),
             static_cast<CUtensorMapSwizzle>(args.swizzle),
             static_cast<CUtensorMapL2promotion>(args.promotion),
             static_cast<CUtensorMapFloatOOBfill>(args.fill));
  return answer<wire::TensorMapTiledReply>(session, record, result, map, args.half);
}

bool handle_TensorMapPixels(Session& session, const wire::TensorMapPixelsArgs& args,
                            const Record& record) {
  if (args.rank < kPixelRankMin || args.rank > kRankMax || args.half > 1)
    return session.malformed(record, "tensor's rank");
  const auto encode = session.driver().cuTensorMapEncodeIm2col;
  if (encode == nullptr) return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  CUtensorMap map = {};
  const CUresult result = encode(&map, static_cast<CUtensorMapDataType>(args.type), args.rank,
                                 reinterpret_cast<void*>(args.address), args.sizes, args.strides,
                                 args.lower, args.upper, args.channels, args.pixels, args.steps,
                                 static_cast<CUtensorMapInterleave>(args.interleave),
                                 static_cast<CUtensorMapSwizzle>(args.swizzle),
                                 static_cast<CUtensorMapL2promotion>(args.promotion),
                                 static_cast<CUtensorMapFloatOOBfill>(args.fill));
  return answer<wire::TensorMapPixelsReply>(session, record, result, map, args.half);
}

bool handle_TensorMapMove(Session& session, const wire::TensorMapMoveArgs& args,
                          const Record& record) {
  if (args.half > 1) return session.malformed(record, "half of a tensor map");
  const auto replace = session.driver().cuTensorMapReplaceAddress;
  if (replace == nullptr) return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  CUtensorMap map = {};
  std::memcpy(&map, args.map, sizeof(map));
  const CUresult result = replace(&map, reinterpret_cast<void*>(args.address));
  return answer<wire::TensorMapMoveReply>(session, record, result, map, args.half);
}

}  // namespace vgpu::server
