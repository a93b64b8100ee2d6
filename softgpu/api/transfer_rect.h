// Copies and fills of boxes on a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/geometry/rect.h"
#include "softgpu/api/transfer.h"

namespace vgpu::softgpu {

// Between any two of host memory, device memory and arrays. CUDA_ERROR_INVALID_HANDLE for an array
// that does not exist, CUDA_ERROR_INVALID_VALUE for a box that is not all inside. Pageable memory
// is never touched after the call returned.
CUresult copy_rect(Context& context, const RectCopy& rect, CUstream stream, Wait wait,
                   Reads reads = Reads::kSoon);

// `height` rows of `count` elements of `width` bytes, `pitch` bytes apart.
CUresult fill_rect(Context& context, uint64_t destination, uint64_t pitch, uint32_t value,
                   uint32_t width, uint64_t count, uint64_t height, CUstream stream, Wait wait);

// The same at once, on the calling thread, in no stream's order. Errors are checked first.
CUresult check_rect(Context& context, const RectCopy& rect);
CUresult copy_rect_now(Context& context, const RectCopy& rect);
CUresult check_fill_rect(Context& context, uint64_t destination, uint64_t pitch, uint32_t width,
                         uint64_t count, uint64_t height);

}  // namespace vgpu::softgpu
