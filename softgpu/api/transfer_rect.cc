// Boxes: where their bytes are, and who moves them when.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/transfer_rect.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "softgpu/api/array_object.h"
#include "softgpu/api/driver.h"
#include "softgpu/exec/faults.h"

namespace vgpu::softgpu {
namespace {

// A box in memory.
struct Place {
  uint64_t start = 0, pitch = 0, slice = 0;
  PointerSide side = PointerSide::kDevice;
  std::shared_ptr<Array> array;  // keeps it until the copy is done
};

CUresult locate(Context& context, const RectCopy& rect, const RectSide& side, Place* place) {
  if (side.is_array()) {
    place->array = find_array(context, side.array);
    if (place->array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult inside = check_in_array(rect, side, place->array->shape);
    if (inside != CUDA_SUCCESS) return inside;
    place->pitch = place->array->pitch();
    place->slice = place->array->slice();
    place->start = place->array->data + side.z * place->slice + side.y * place->pitch + side.x;
    return CUDA_SUCCESS;
  }
  place->start = side.address;
  place->pitch = side.pitch;
  place->slice = side.slice;
  place->side = side_of(context, side.address);
  if (place->side == PointerSide::kPageable)
    return side.type == CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  return context.device().memory().covers(side.address, rect.span(side)) ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}

void move_box(const Place& to, const Place& from, uint64_t width, uint64_t height, uint64_t depth) {
  for (uint64_t z = 0; z < depth; ++z) {
    for (uint64_t y = 0; y < height; ++y) {
      std::memmove(reinterpret_cast<void*>(to.start + z * to.slice + y * to.pitch),
                   reinterpret_cast<const void*>(from.start + z * from.slice + y * from.pitch),
                   width);
    }
  }
}

// Out of pageable memory behind other work: the bytes are taken now, packed.
CUresult copy_packed(Context& context, const RectCopy& rect, const Place& to, const Place& from,
                     CUstream stream) {
  auto staged = std::make_shared<std::vector<uint8_t>>(rect.bytes());
  Place packed;
  packed.start = reinterpret_cast<uint64_t>(staged->data());
  packed.pitch = rect.width;
  packed.slice = rect.width * rect.height;
  move_box(packed, from, rect.width, rect.height, rect.depth);
  return run_on_stream(context, stream, rect.bytes(), Wait::kNo,
                       [to, packed, staged, width = rect.width, height = rect.height,
                        depth = rect.depth] { move_box(to, packed, width, height, depth); });
}

CUresult locate_both(Context& context, const RectCopy& rect, Place* to, Place* from) {
  if (const CUresult r = locate(context, rect, rect.to, to); r != CUDA_SUCCESS) return r;
  if (const CUresult r = locate(context, rect, rect.from, from); r != CUDA_SUCCESS) return r;
  return to->array != nullptr && from->array != nullptr &&
                 to->array->shape.texel_bytes() != from->array->shape.texel_bytes()
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

}  // namespace

CUresult check_rect(Context& context, const RectCopy& rect) {
  Place to, from;
  return locate_both(context, rect, &to, &from);
}

CUresult copy_rect_now(Context& context, const RectCopy& rect) {
  Place to, from;
  const CUresult r = locate_both(context, rect, &to, &from);
  if (r != CUDA_SUCCESS) return r;
  const bool moved =
      runs_without_fault([&] { move_box(to, from, rect.width, rect.height, rect.depth); });
  return moved ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult copy_rect(Context& context, const RectCopy& rect, CUstream stream, Wait wait,
                   Reads reads) {
  if (rect.empty()) return CUDA_SUCCESS;
  Place to, from;
  if (const CUresult r = locate_both(context, rect, &to, &from); r != CUDA_SUCCESS) return r;
  if (wait == Wait::kNo && (to.side == PointerSide::kPageable || takes_now(from.side, reads))) {
    const std::shared_ptr<Stream> target = find_stream(context, stream);
    if (target == nullptr) return green::lost_stream(stream);
    const bool now = to.side == PointerSide::kPageable || rect.bytes() > kStagingBytesMax ||
                     context.device().management().nothing_before(*target->queue);
    if (!now) return copy_packed(context, rect, to, from, stream);
    wait = Wait::kYes;
  }
  return run_on_stream(context, stream, rect.bytes(), wait,
                       [to, from, width = rect.width, height = rect.height, depth = rect.depth] {
                         move_box(to, from, width, height, depth);
                       });
}

CUresult check_fill_rect(Context& context, uint64_t destination, uint64_t pitch, uint32_t width,
                         uint64_t count, uint64_t height) {
  if (height == 1) pitch = 0;
  uint64_t row = 0, last = 0, span = 0;
  const bool good = destination % width == 0 && pitch % width == 0 && pitch <= INT_MAX &&
                    !__builtin_mul_overflow(count, uint64_t{width}, &row) &&
                    (height == 1 || pitch >= row) &&
                    !__builtin_mul_overflow(height - 1, pitch, &last) &&
                    !__builtin_add_overflow(last, row, &span) &&
                    context.device().memory().covers(destination, span);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fill_rect(Context& context, uint64_t destination, uint64_t pitch, uint32_t value,
                   uint32_t width, uint64_t count, uint64_t height, CUstream stream, Wait wait) {
  if (count == 0 || height == 0) return CUDA_SUCCESS;
  const CUresult checked = check_fill_rect(context, destination, pitch, width, count, height);
  if (checked != CUDA_SUCCESS) return checked;
  const std::shared_ptr<Stream> target = find_stream(context, stream);
  if (target == nullptr || target->context != &context) return green::lost_stream(stream);
  return run_on_stream(context, stream, count * width * height, wait, [=] {
    for (uint64_t y = 0; y < height; ++y) fill_now(destination + y * pitch, value, width, count);
  });
}

}  // namespace vgpu::softgpu
