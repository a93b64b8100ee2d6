// Surface loads, stores and reductions of compiled kernels. They touch guest memory: a fault leaves
// them by longjmp, so nothing here may own anything.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/block_services.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/jit/texel.h"
#include "softgpu/jit/texture_op.h"

namespace vgpu::softgpu {
namespace {

using Words = const uint32_t (*)[kWarpLanes];

const TextureView& find_surface(WarpContext* warp, uint64_t handle) {
  const TextureView* view = TextureTable::instance().find(handle);
  if (view == nullptr || view->kind != TextureKind::kSurface)
    warp->services->abort(CUDA_ERROR_ILLEGAL_ADDRESS, handle, "access through no surface object");
  return *view;
}

// Where one lane's access lies; nullptr when it is outside and the mode says zero.
uint8_t* locate(WarpContext* warp, const TextureView& view, const SurfaceOp& op, Words coordinates,
                int lane, uint32_t bytes) {
  const TextureLevel& level = view.level[0];
  const auto at = [&](int i) { return int64_t{static_cast<int32_t>(coordinates[i][lane])}; };
  int64_t x = 0, y = 0, z = 0;
  switch (op.geometry) {
    case TextureGeometry::k1D:
      x = at(0);
      break;
    case TextureGeometry::k2D:
      x = at(0), y = at(1);
      break;
    case TextureGeometry::k3D:
      x = at(0), y = at(1), z = at(2);
      break;
    case TextureGeometry::k1DLayered:
      z = at(0), x = at(1);
      break;
    default:
      z = at(0), x = at(1), y = at(2);
      break;
  }
  if (op.formatted) x *= view.texel_bytes();
  const int64_t x_last = static_cast<int64_t>(level.width) * view.texel_bytes() - bytes;
  const int64_t y_last = int64_t{level.height} - 1, z_last = int64_t{level.slices} - 1;
  const bool inside = x >= 0 && x <= x_last && y >= 0 && y <= y_last && z >= 0 && z <= z_last;
  if (!inside) {
    if (op.mode == SurfaceMode::kZero || x_last < 0) return nullptr;
    if (op.mode == SurfaceMode::kTrap) {
      warp->services->abort(CUDA_ERROR_LAUNCH_FAILED, static_cast<uint64_t>(x),
                            "surface access out of range");
    }
    x = std::clamp<int64_t>(x, 0, x_last);
    y = std::clamp<int64_t>(y, 0, y_last);
    z = std::clamp<int64_t>(z, 0, z_last);
  }
  return const_cast<uint8_t*>(level.data) + static_cast<uint64_t>(z) * level.slice +
         static_cast<uint64_t>(y) * level.pitch + static_cast<uint64_t>(x);
}

void load_lanes(WarpContext* warp, uint32_t bits, uint32_t mask, const uint64_t* handles,
                Words coordinates, uint8_t* out) {
  const SurfaceOp op = SurfaceOp::unpack(bits);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const TextureView& view = find_surface(warp, handles[lane]);
    const uint8_t* at = locate(warp, view, op, coordinates, lane, uint32_t{op.bytes} * op.count);
    for (uint32_t e = 0; e < op.count; ++e) {
      uint8_t* to = out + (e * kWarpLanes + static_cast<uint32_t>(lane)) * op.bytes;
      if (at != nullptr)
        std::memcpy(to, at + e * op.bytes, op.bytes);
      else
        std::memset(to, 0, op.bytes);
    }
  }
}

// A 32-bit value as one channel of the surface: cut to its width, or rounded to a half.
void store_channel(const TextureView& view, uint32_t value, uint8_t* to) {
  if (view.format == CU_AD_FORMAT_HALF) {
    float wide;
    std::memcpy(&wide, &value, sizeof wide);
    const auto half = static_cast<_Float16>(wide);
    std::memcpy(to, &half, sizeof half);
    return;
  }
  std::memcpy(to, &value, view.channel_bytes);
}

void store_lanes(WarpContext* warp, uint32_t bits, uint32_t mask, const uint64_t* handles,
                 Words coordinates, const uint8_t* values) {
  const SurfaceOp op = SurfaceOp::unpack(bits);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const TextureView& view = find_surface(warp, handles[lane]);
    const uint32_t bytes = op.formatted ? view.texel_bytes() : uint32_t{op.bytes} * op.count;
    uint8_t* at = locate(warp, view, op, coordinates, lane, bytes);
    if (at == nullptr) continue;
    for (uint32_t e = 0; e < op.count; ++e) {
      const uint8_t* from = values + (e * kWarpLanes + static_cast<uint32_t>(lane)) * op.bytes;
      if (!op.formatted) {
        std::memcpy(at + e * op.bytes, from, op.bytes);
      } else if (e < view.channels) {
        uint32_t value;
        std::memcpy(&value, from, sizeof value);
        store_channel(view, value, at + e * view.channel_bytes);
      }
    }
  }
}

template <typename T>
T combine(SurfaceReduction how, T old, T value) {
  switch (how) {
    case SurfaceReduction::kAdd:
      return static_cast<T>(old + value);
    case SurfaceReduction::kMin:
      return std::min(old, value);
    case SurfaceReduction::kMax:
      return std::max(old, value);
    case SurfaceReduction::kAnd:
      return old & value;
    default:
      return old | value;
  }
}

template <typename T, typename Signed>
void reduce(const SurfaceOp& op, uint8_t* at, const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  auto* word = reinterpret_cast<T*>(at);
  T old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const T next = op.is_signed
                       ? static_cast<T>(combine<Signed>(op.reduction, static_cast<Signed>(old),
                                                        static_cast<Signed>(value)))
                       : combine<T>(op.reduction, old, value);
    if (__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return;
  }
}

void reduce_lanes(WarpContext* warp, uint32_t bits, uint32_t mask, const uint64_t* handles,
                  Words coordinates, const uint8_t* values) {
  const SurfaceOp op = SurfaceOp::unpack(bits);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    uint8_t* at = locate(warp, find_surface(warp, handles[lane]), op, coordinates, lane, op.bytes);
    if (at == nullptr) continue;
    if (reinterpret_cast<uint64_t>(at) % op.bytes != 0)
      warp->services->abort(CUDA_ERROR_MISALIGNED_ADDRESS, reinterpret_cast<uint64_t>(at),
                            "misaligned surface reduction");
    const uint8_t* from = values + static_cast<uint32_t>(lane) * op.bytes;
    if (op.bytes == 8)
      reduce<uint64_t, int64_t>(op, at, from);
    else
      reduce<uint32_t, int32_t>(op, at, from);
  }
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_surface_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_surface_load", address_of(load_lanes)},
                                           {"sg_surface_store", address_of(store_lanes)},
                                           {"sg_surface_reduce", address_of(reduce_lanes)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
