// Copies and fills on a stream: inline when nothing is before them, else on the copy engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "softgpu/api/context_object.h"

namespace vgpu::softgpu {

inline constexpr uint64_t kInlineBytesMax =
    512 << 10;  // an asynchronous copy up to this size may run in the caller
inline constexpr uint64_t kStagingBytesMax =
    64 << 20;  // larger pageable copies wait instead of being staged

enum class Wait { kNo, kYes };

// When a copy reads its source: as soon as it may, which is when the call returns where the program
// may then change it; in the stream's order; or certainly before the call returns, which a source
// on the device does not become sooner than in the stream's order: the caller waits for it.
enum class Reads { kSoon, kInOrder, kBeforeReturn };

// Runs `work` in the stream's order; `bytes` decides whether the caller may run it itself. Returns
// the sticky error, if any.
CUresult run_on_stream(Context& context, CUstream stream, uint64_t bytes, Wait wait,
                       std::function<void()> work);

// What the driver knows of a pointer.
enum class PointerSide { kDevice, kPinnedHost, kPageable };
PointerSide side_of(Context& context, uint64_t address);

inline Reads reads_of(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM            ? Reads::kInOrder
         : order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? Reads::kBeforeReturn
                                                               : Reads::kSoon;
}

// A copy between any two sides; CUDA_ERROR_INVALID_VALUE when a side that must be known is not.
// Pageable memory is never touched after the call returned, but for a source read in order.
CUresult copy(Context& context, uint64_t destination, uint64_t source, uint64_t bytes,
              CUstream stream, Wait wait, Reads reads = Reads::kSoon);

// Whether the bytes of a source are to be taken while the call runs.
inline bool takes_now(PointerSide source, Reads reads) {
  if (reads == Reads::kInOrder || source == PointerSide::kDevice) return false;
  return source == PointerSide::kPageable || reads == Reads::kBeforeReturn;
}

// Writes `count` elements of `width` bytes at once, on the calling thread.
void fill_now(uint64_t destination, uint32_t value, uint32_t width, uint64_t count);

// `count` elements of `width` bytes.
CUresult fill(Context& context, uint64_t destination, uint32_t value, uint32_t width,
              uint64_t count, CUstream stream, Wait wait);

}  // namespace vgpu::softgpu
