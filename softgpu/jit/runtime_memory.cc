// Gathers, scatters and atomics of compiled kernels. They touch guest memory: a fault leaves them
// by longjmp, so nothing here may own anything. SPDX-License-Identifier: Apache-2.0
#include <emmintrin.h>

#include <cstdint>
#include <cstring>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/atomic_op.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {
namespace {

// In one access of the processor, whatever the size.
template <typename T>
void move(void* to, const void* from) {
  if constexpr (sizeof(T) == sizeof(__m128i)) {
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm_loadu_si128(static_cast<const __m128i*>(from)));
  } else {
    std::memcpy(to, from, sizeof(T));
  }
}

template <typename T>
void gather(const uint64_t* address, uint32_t mask, T* out) {
  if (mask == 0xffffffffu) {
    for (int i = 0; i < 32; ++i) move<T>(&out[i], reinterpret_cast<const void*>(address[i]));
    return;
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    move<T>(&out[i], reinterpret_cast<const void*>(address[i]));
  }
}

template <typename T>
void scatter(const uint64_t* address, uint32_t mask, const T* value) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    move<T>(reinterpret_cast<void*>(address[i]), &value[i]);
  }
}

template <typename T>
T combine(AtomicOp op, T old, T value) {
  switch (op) {
    case AtomicOp::kAdd:
      return static_cast<T>(old + value);
    case AtomicOp::kMin:
      return value < old ? value : old;
    case AtomicOp::kMax:
      return value > old ? value : old;
    case AtomicOp::kInc:
      return old >= value ? T{0} : static_cast<T>(old + T{1});
    case AtomicOp::kDec:
      return old == T{0} || old > value ? value : static_cast<T>(old - T{1});
    case AtomicOp::kExch:
      return value;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == AtomicOp::kAnd) return static_cast<T>(old & value);
    if (op == AtomicOp::kOr) return static_cast<T>(old | value);
    if (op == AtomicOp::kXor) return static_cast<T>(old ^ value);
  }
  return old;
}

template <typename T, typename Bits>
Bits atomic_global(AtomicOp op, Bits* at, Bits value, Bits second) {
  if (op == AtomicOp::kCas) {
    Bits expected = value;
    __atomic_compare_exchange_n(at, &expected, second, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == AtomicOp::kAdd) return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
  }
  if (op == AtomicOp::kExch) return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
  Bits old = __atomic_load_n(at, __ATOMIC_RELAXED);
  for (;;) {
    T a, b;
    std::memcpy(&a, &old, sizeof a);
    std::memcpy(&b, &value, sizeof b);
    const T r = combine<T>(op, a, b);
    Bits next;
    std::memcpy(&next, &r, sizeof next);
    if (__atomic_compare_exchange_n(at, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return old;
  }
}

// A block runs on one thread at a time: its shared memory needs no locked instructions.
template <typename T, typename Bits>
Bits atomic_shared(AtomicOp op, Bits* at, Bits value, Bits second) {
  const Bits old = *at;
  if (op == AtomicOp::kCas) {
    if (old == value) *at = second;
    return old;
  }
  T a, b;
  std::memcpy(&a, &old, sizeof a);
  std::memcpy(&b, &value, sizeof b);
  const T r = combine<T>(op, a, b);
  std::memcpy(at, &r, sizeof r);
  return old;
}

template <typename T, typename Bits>
void each_lane(AtomicOp op, bool in_block, const uint64_t* address, uint32_t mask,
               const void* values, const void* seconds, void* out) {
  auto* v = static_cast<const Bits*>(values);
  auto* s = static_cast<const Bits*>(seconds);
  auto* o = static_cast<Bits*>(out);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    auto* at = reinterpret_cast<Bits*>(address[i]);
    o[i] = in_block ? atomic_shared<T, Bits>(op, at, v[i], s[i])
                    : atomic_global<T, Bits>(op, at, v[i], s[i]);
  }
}

void atomic(uint32_t code, uint32_t in_block, const uint64_t* address, uint32_t mask, const void* v,
            const void* s, void* out) {
  const auto op = static_cast<AtomicOp>(code >> 8);
  const bool b = in_block != 0;
  switch (static_cast<AtomicType>(code & 0xff)) {
    case AtomicType::kU16:
      return each_lane<uint16_t, uint16_t>(op, b, address, mask, v, s, out);
    case AtomicType::kU32:
      return each_lane<uint32_t, uint32_t>(op, b, address, mask, v, s, out);
    case AtomicType::kS32:
      return each_lane<int32_t, uint32_t>(op, b, address, mask, v, s, out);
    case AtomicType::kF32:
      return each_lane<float, uint32_t>(op, b, address, mask, v, s, out);
    case AtomicType::kU64:
      return each_lane<uint64_t, uint64_t>(op, b, address, mask, v, s, out);
    case AtomicType::kS64:
      return each_lane<int64_t, uint64_t>(op, b, address, mask, v, s, out);
    case AtomicType::kF64:
      return each_lane<double, uint64_t>(op, b, address, mask, v, s, out);
    case AtomicType::kNone:
      return;
  }
}

// The commonest of them: counting in shared memory.
void shared_add32(const uint64_t* address, uint32_t mask, const uint32_t* value) {
  if (mask == 0xffffffffu) {
    for (int i = 0; i < 32; ++i) *reinterpret_cast<uint32_t*>(address[i]) += value[i];
    return;
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    *reinterpret_cast<uint32_t*>(address[i]) += value[i];
  }
}

void misaligned(WarpContext* warp, uint64_t address) {
  warp->services->abort(CUDA_ERROR_MISALIGNED_ADDRESS, address, "misaligned access");
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_memory_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_gather1", address_of(gather<uint8_t>)},
                                           {"sg_gather2", address_of(gather<uint16_t>)},
                                           {"sg_gather4", address_of(gather<uint32_t>)},
                                           {"sg_gather8", address_of(gather<uint64_t>)},
                                           {"sg_gather16", address_of(gather<unsigned __int128>)},
                                           {"sg_scatter1", address_of(scatter<uint8_t>)},
                                           {"sg_scatter2", address_of(scatter<uint16_t>)},
                                           {"sg_scatter4", address_of(scatter<uint32_t>)},
                                           {"sg_scatter8", address_of(scatter<uint64_t>)},
                                           {"sg_scatter16", address_of(scatter<unsigned __int128>)},
                                           {"sg_misaligned", address_of(misaligned)},
                                           {"sg_shared_add32", address_of(shared_add32)},
                                           {"sg_atomic", address_of(atomic)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
