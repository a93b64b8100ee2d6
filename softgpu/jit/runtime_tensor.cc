// Boxes of tensors between global and shared memory. These touch guest memory: a fault leaves them
// by longjmp, so nothing here may own anything.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/tensor_map.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/async_op.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/jit/small_format.h"
#include "softgpu/jit/tensor_op.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kBoxBytesMax = 256u << 10;  // more than any block's shared memory

template <typename Word, typename F>
void update(uint8_t* at, F next) {
  auto* word = reinterpret_cast<Word*>(at);
  // Partner: whoever else changes the word; every change is one exchange.
  Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, next(old), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED)) {
  }
}

template <typename T>
T combine(TensorOp op, T a, T b) {
  if (op == TensorOp::kMin) return b < a ? b : a;
  if (op == TensorOp::kMax) return b > a ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (op == TensorOp::kAnd) return a & b;
    if (op == TensorOp::kOr) return a | b;
    if (op == TensorOp::kXor) return a ^ b;
    if (op == TensorOp::kInc) return a >= b ? 0 : a + 1;
    if (op == TensorOp::kDec) return a == 0 || a > b ? b : a - 1;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
  return a + b;
}

template <typename T>
void reduce_as(TensorOp op, uint8_t* to, const uint8_t* from) {
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  T value;
  std::memcpy(&value, from, sizeof value);
  update<Word>(to, [&](Word old) {
    return std::bit_cast<Word>(combine<T>(op, std::bit_cast<T>(old), value));
  });
}

void reduce_small(TensorOp op, uint8_t* to, const uint8_t* from, uint32_t format) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  const float value = decode_small_float(bits, format);
  update<uint16_t>(to, [&](uint16_t old) {
    const float before = decode_small_float(old, format);
    if (op == TensorOp::kAdd)
      return static_cast<uint16_t>(encode_small_float(double{before} + double{value}, format));
    if (before != before) return bits;
    if (value != value) return old;
    return combine(op, before, value) == before ? old : bits;
  });
}

// False for a type that has no such operation.
bool reduce_element(TensorOp op, uint32_t type, uint8_t* to, const uint8_t* from) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
      return reduce_as<uint32_t>(op, to, from), true;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return reduce_as<int32_t>(op, to, from), true;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return reduce_as<uint64_t>(op, to, from), true;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return reduce_as<int64_t>(op, to, from), true;
    default:
      break;
  }
  if (op > TensorOp::kMax) return false;
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return reduce_small(op, to, from, kFormatHalf), true;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return reduce_small(op, to, from, kFormatBfloat), true;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
      return op == TensorOp::kAdd && (reduce_as<float>(op, to, from), true);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return op == TensorOp::kAdd && (reduce_as<double>(op, to, from), true);
    default:
      return false;
  }
}

// One lane's copy.
struct BoxCopy {
  const TensorMap* map;
  TensorOp op;
  int64_t at[kTensorRankMax];  // the box's first element
  uint8_t* window;             // shared memory, from which swizzles count
  uint64_t shared;             // the box, from the window on
  uint32_t element;            // bytes
  uint32_t piece;              // bytes that no swizzle parts

  bool inside(uint32_t d, int64_t i) const { return i >= 0 && i <= int64_t{map->last[d]}; }
  uint8_t* place(uint64_t offset) const { return window + swizzled(shared + offset, map->swizzle); }
  // What is read outside of the tensor: 0, or a NaN.
  void fill(uint8_t* to, uint32_t bytes) const {
    std::memset(to, 0, bytes);
    if (map->fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) return;
    for (uint32_t i = 0; i < bytes; i += element) {
      std::memset(to + i, 0xff, element);
      to[i + element - 1] = 0x7f;
    }
  }
  bool move(uint8_t* global, uint8_t* local, uint32_t bytes) const {
    if (op == TensorOp::kLoad) return std::memcpy(local, global, bytes), true;
    if (op == TensorOp::kStore) return std::memcpy(global, local, bytes), true;
    for (uint32_t i = 0; i < bytes; i += element) {
      if (!reduce_element(op, map->type, global + i, local + i)) return false;
    }
    return true;
  }
  // A row of dimension 0; `global`: its element 0, nullptr when the row is outside.
  bool row(uint8_t* global, uint64_t offset) const {
    const uint32_t bytes = map->box[0] * element;
    for (uint32_t done = 0; done < bytes; done += piece) {
      uint8_t* const local = place(offset + done);
      const int64_t first = at[0] + done / element, last = first + piece / element - 1;
      if (global != nullptr && inside(0, first) && inside(0, last)) {
        if (!move(global + first * element, local, piece)) return false;
        continue;
      }
      for (uint32_t i = 0; i < piece; i += element) {
        const int64_t x = first + i / element;
        if (global != nullptr && inside(0, x)) {
          if (!move(global + x * element, local + i, element)) return false;
        } else if (op == TensorOp::kLoad) {
          fill(local + i, element);
        }
      }
    }
    return true;
  }
  uint64_t row_bytes() const { return uint64_t{map->box[0]} * element; }
  // A box: its rows one behind the other, from `offset` on.
  bool run(uint64_t offset) const {
    uint32_t index[kTensorRankMax] = {};
    for (;; offset += row_bytes()) {
      auto* global = reinterpret_cast<uint8_t*>(map->address);
      for (uint32_t d = 1; d < map->rank; ++d) {
        const int64_t i = at[d] + int64_t{index[d]} * map->steps[d];
        if (!inside(d, i)) global = nullptr;
        if (global != nullptr) global += static_cast<uint64_t>(i) * map->strides[d - 1];
      }
      if (!row(global, offset)) return false;
      uint32_t d = 1;
      while (d < map->rank && ++index[d] == map->count(d)) index[d++] = 0;
      if (d >= map->rank) return true;
    }
  }
  // A column of pixels from `at` on: places go through the map's bounds, the first dimension of
  // them fastest, then to the next image. What is read at a place lies `offsets` beside it.
  bool run_pixels(const uint32_t offsets[]) const {
    const uint32_t images = map->rank - 1;
    int64_t pixel[kTensorRankMax];
    std::copy_n(at, kTensorRankMax, pixel);
    for (uint32_t i = 0; i < map->box[1]; ++i) {
      auto* global = reinterpret_cast<uint8_t*>(map->address);
      for (uint32_t d = 1; d <= images; ++d) {
        const int64_t x = pixel[d] + (d < images ? int64_t{offsets[d - 1]} : 0);
        if (!inside(d, x)) global = nullptr;
        if (global != nullptr) global += static_cast<uint64_t>(x) * map->strides[d - 1];
      }
      if (!row(global, i * row_bytes())) return false;
      uint32_t d = 1;
      for (; d < images; ++d) {
        pixel[d] += map->steps[d];
        if (pixel[d] <= map->last_place(d)) break;
        pixel[d] = map->first_place(d);
      }
      if (d == images) ++pixel[d];
    }
    return true;
  }
};

// Whether the map is one for such an instruction.
bool suits(const TensorMap& map, TensorAccess access, uint32_t dimensions) {
  if (!map.valid() || map.rank != dimensions || map.box_bytes() > kBoxBytesMax) return false;
  if (map.pixels() != (access == TensorAccess::kPixels)) return false;
  return access != TensorAccess::kRows || map.box[1] == 1;
}

bool copy_lane(const TensorCopy& all, int lane, const TensorMap& map, uint8_t* window,
               uint64_t shared) {
  BoxCopy box{&map, static_cast<TensorOp>(all.op), {}, window, shared, map.element_bytes(), 16};
  if (map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B) box.piece = 8;
  const auto of_lane = [&](const auto* rows, uint32_t d) { return rows[d * all.lanes + lane]; };
  const auto access = static_cast<TensorAccess>(all.access);
  for (uint32_t d = 0; d < all.dimensions; ++d) box.at[d] = of_lane(all.coordinates, d);
  if (access == TensorAccess::kBox) return box.run(0);
  if (access == TensorAccess::kPixels) {
    uint32_t offsets[kTensorRankMax - 2] = {};
    for (uint32_t d = 0; d + 2 < all.dimensions; ++d) offsets[d] = of_lane(all.offsets, d);
    return box.run_pixels(offsets);
  }
  for (uint32_t i = 0; i < kGatheredRows; ++i) {
    box.at[1] = of_lane(all.coordinates, 1 + i);
    if (!box.run(i * box.row_bytes())) return false;
  }
  return true;
}

// Into the windows of all blocks of the cluster that a bit stands for, whose mbarriers are told.
void copy(WarpContext* warp, uint32_t mask, const TensorCopy* all) {
  const auto memory = reinterpret_cast<uint64_t>(warp->shared);
  const auto abort = [warp](uint64_t at, const char* text) {
    warp->services->abort(CUDA_ERROR_ILLEGAL_INSTRUCTION, at, text);
  };
  const uint32_t count = warp->cluster != nullptr ? warp->cluster->blocks : 1;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    TensorMap map;
    std::memcpy(&map, reinterpret_cast<const void*>(all->maps[lane]), sizeof map);
    const auto access = static_cast<TensorAccess>(all->access);
    if (!suits(map, access, all->dimensions)) abort(all->maps[lane], "no tensor map for this");
    const uint64_t bytes = map.box_bytes() * (access == TensorAccess::kRows ? kGatheredRows : 1);
    const bool loads = all->mbarriers != nullptr;
    for (uint32_t left = all->blocks != nullptr ? all->blocks[lane] & 0xffff : 1; left != 0;
         left &= left - 1) {
      uint64_t to = all->shared[lane] - memory, barrier = loads ? all->mbarriers[lane] : 0;
      if (all->blocks != nullptr) {
        const auto rank = static_cast<uint32_t>(std::countr_zero(left));
        if (rank >= count)
          warp->services->abort(CUDA_ERROR_ILLEGAL_ADDRESS, to, "no such block in the cluster");
        const uint64_t window = uint64_t{rank} * kClusterWindow;
        to = window + to % kClusterWindow;
        barrier = memory + window + (barrier - memory) % kClusterWindow;
      }
      if (!copy_lane(*all, lane, map, warp->shared, to))
        abort(all->maps[lane], "the tensor's type has no such reduction");
      if (loads) complete_bytes(barrier, bytes);
    }
  }
}

// size[lane] bytes: each element of the destination becomes what the operation makes of it and the
// source's.
void reduce_bulk(uint32_t op, uint32_t type, const uint64_t* to, const uint64_t* from,
                 uint32_t mask, const uint32_t* size) {
  const uint32_t element = tensor_element_bytes(type);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    for (uint64_t i = 0; i + element <= size[lane]; i += element) {
      reduce_element(static_cast<TensorOp>(op), type, reinterpret_cast<uint8_t*>(to[lane] + i),
                     reinterpret_cast<const uint8_t*>(from[lane] + i));
    }
  }
}

void replace(TensorField field, uint32_t place, uint64_t value, TensorMap* map) {
  const bool dimension = place < kTensorRankMax;
  switch (field) {
    case TensorField::kAddress:
      map->address = value;
      break;
    case TensorField::kRank:
      map->rank = static_cast<uint8_t>(std::min<uint64_t>(value + 1, 255));
      break;
    case TensorField::kBox:
      if (dimension) map->box[place] = static_cast<uint16_t>(std::min<uint64_t>(value, 65535));
      break;
    case TensorField::kSize:
      if (dimension) map->last[place] = static_cast<uint32_t>(value) - 1;
      break;
    case TensorField::kStride:
      if (place < kTensorRankMax - 1) map->strides[place] = value;
      break;
    case TensorField::kStep:
      if (dimension) map->steps[place] = static_cast<uint8_t>(std::min<uint64_t>(value, 255));
      break;
    case TensorField::kFill:
      map->fill = value != 0;
      break;
    case TensorField::kSwizzle:  // none, 32, 64, 128 bytes; 96 is not known here
      map->swizzle = static_cast<uint8_t>(value <= 3 ? value : 255);
      break;
  }
}

void change_map(uint32_t field, uint32_t place, uint32_t mask, const uint64_t* maps,
                const uint64_t* values) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    TensorMap map;
    std::memcpy(&map, reinterpret_cast<const void*>(maps[lane]), sizeof map);
    replace(static_cast<TensorField>(field), place, values[lane], &map);
    std::memcpy(reinterpret_cast<void*>(maps[lane]), &map, sizeof map);
  }
}

}  // namespace

std::span<const RuntimeSymbol> runtime_tensor_symbols() {
  static const RuntimeSymbol kSymbols[] = {
      {"sg_tensor_copy", reinterpret_cast<void*>(copy)},
      {"sg_tensor_map", reinterpret_cast<void*>(change_map)},
      {"sg_reduce_bulk", reinterpret_cast<void*>(reduce_bulk)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
