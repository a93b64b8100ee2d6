// Copies between spaces, mbarriers, and atomics on small floats and on 128 bits. They touch guest
// memory: a fault leaves them by longjmp, so nothing here may own anything.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/async_op.h"
#include "softgpu/jit/atomic_op.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/jit/small_format.h"

namespace vgpu::softgpu {
namespace {

using U128 = unsigned __int128;

template <typename F>
void each(uint32_t mask, F f) {
  for (uint32_t m = mask; m != 0; m &= m - 1) f(std::countr_zero(m));
}

// `size` bytes (4, 8 or 16): the first `wanted` of the source, then zeros.
void copy(const uint64_t* to, const uint64_t* from, uint32_t mask, uint32_t size,
          const uint32_t* wanted) {
  each(mask, [&](int i) {
    uint8_t bytes[16] = {};
    const uint32_t n = wanted[i] < size ? wanted[i] : size;
    if (n > sizeof bytes) return;
    std::memcpy(bytes, reinterpret_cast<const void*>(from[i]), n);
    std::memcpy(reinterpret_cast<void*>(to[i]), bytes, size < sizeof bytes ? size : sizeof bytes);
  });
}

void copy_bulk(const uint64_t* to, const uint64_t* from, uint32_t mask, const uint32_t* size) {
  each(mask, [&](int i) {
    std::memmove(reinterpret_cast<void*>(to[i]), reinterpret_cast<const void*>(from[i]), size[i]);
  });
}

// Of each 16 bytes those whose bit is set.
void copy_masked(const uint64_t* to, const uint64_t* from, uint32_t mask, const uint32_t* size,
                 const uint32_t* bytes) {
  each(mask, [&](int i) {
    auto* out = reinterpret_cast<uint8_t*>(to[i]);
    const auto* in = reinterpret_cast<const uint8_t*>(from[i]);
    for (uint64_t at = 0; at < size[i]; ++at) {
      if ((bytes[i] >> at % 16 & 1) != 0) out[at] = in[at];
    }
  });
}

void clear(const uint64_t* to, uint32_t mask, const uint64_t* size) {
  each(mask, [&](int i) { std::memset(reinterpret_cast<void*>(to[i]), 0, size[i]); });
}

// The word of an mbarrier: arrivals still awaited (20 bits), arrivals of a phase (20), bytes still
// to come plus kBytesBias (23), parity of the phase (1). Blocks run on one thread at a time.
constexpr uint64_t kCountMask = (1u << 20) - 1, kBytesMask = (1u << 23) - 1;
constexpr uint64_t kBytesBias = 1u << 22;

struct Mbarrier {
  uint64_t awaited, expected, bytes, parity;

  explicit Mbarrier(uint64_t word)
      : awaited(word & kCountMask),
        expected(word >> 20 & kCountMask),
        bytes(word >> 40 & kBytesMask),
        parity(word >> 63) {}
  uint64_t word() const {
    return (awaited & kCountMask) | (expected & kCountMask) << 20 | (bytes & kBytesMask) << 40 |
           parity << 63;
  }
  void end_phase_if_due() {
    if (awaited != 0 || bytes != kBytesBias) return;
    parity ^= 1;
    awaited = expected;
  }
};

uint64_t step(MbarrierOp op, uint64_t* at, uint64_t value) {
  if (op == MbarrierOp::kPending) return Mbarrier(value).awaited;
  uint64_t old;
  std::memcpy(&old, at, 8);
  Mbarrier m(old);
  switch (op) {
    case MbarrierOp::kInit:
      m = Mbarrier(kBytesBias << 40);
      m.awaited = m.expected = value & kCountMask;
      break;
    case MbarrierOp::kDrop:
      m.expected -= value;
      [[fallthrough]];
    case MbarrierOp::kArrive:
      m.awaited -= value;
      m.end_phase_if_due();
      break;
    case MbarrierOp::kExpect:
      m.bytes += value;
      break;
    case MbarrierOp::kExpectAndArrive:
      m.bytes += value;
      m.awaited -= 1;
      m.end_phase_if_due();
      break;
    case MbarrierOp::kComplete:
      m.bytes -= value;
      m.end_phase_if_due();
      break;
    case MbarrierOp::kTest:
      return m.parity != value >> 63 ? 1 : 0;
    case MbarrierOp::kTestParity:
      return m.parity != (value & 1) ? 1 : 0;
    case MbarrierOp::kPending:
      break;
  }
  const uint64_t now = m.word();
  std::memcpy(at, &now, 8);
  return old;
}

void mbarrier(uint32_t op, const uint64_t* address, uint32_t mask, const uint64_t* value,
              uint64_t* out) {
  each(mask, [&](int i) {
    out[i] = step(static_cast<MbarrierOp>(op), reinterpret_cast<uint64_t*>(address[i]), value[i]);
  });
}

// To the windows of the blocks that the bits of `blocks` stand for, and the same place in each; the
// mbarriers likewise.
void copy_multicast(WarpContext* warp, const uint64_t* to, const uint64_t* from, uint32_t mask,
                    const uint32_t* size, const uint64_t* mbarriers, const uint32_t* blocks) {
  const auto memory = reinterpret_cast<uint64_t>(warp->shared);
  const uint32_t count = warp->cluster != nullptr ? warp->cluster->blocks : 1;
  each(mask, [&](int i) {
    for (uint32_t left = blocks[i] & 0xffff; left != 0; left &= left - 1) {
      const auto rank = static_cast<uint32_t>(std::countr_zero(left));
      const uint64_t window = memory + uint64_t{rank} * kClusterWindow;
      const uint64_t place = window + (to[i] - memory) % kClusterWindow;
      if (rank >= count)
        warp->services->abort(CUDA_ERROR_ILLEGAL_ADDRESS, place, "no such block in the cluster");
      std::memmove(reinterpret_cast<void*>(place), reinterpret_cast<const void*>(from[i]), size[i]);
      const uint64_t barrier = window + (mbarriers[i] - memory) % kClusterWindow;
      step(MbarrierOp::kComplete, reinterpret_cast<uint64_t*>(barrier), size[i]);
    }
  });
}

uint32_t combine_half(AtomicOp op, uint32_t old, uint32_t value, uint32_t format) {
  const float a = decode_small_float(old, format), b = decode_small_float(value, format);
  if (op == AtomicOp::kAdd) return encode_small_float(double{a} + double{b}, format);
  if (a != a) return value;
  if (b != b) return old;
  return ((op == AtomicOp::kMin) == (b < a)) && a != b ? value : old;
}

template <typename Word>
void atomic_halves(AtomicOp op, uint32_t format, const uint64_t* address, uint32_t mask,
                   const Word* values, Word* out) {
  each(mask, [&](int i) {
    auto* at = reinterpret_cast<Word*>(address[i]);
    // Partner: whoever else runs atomics on the word; relaxed is enough to begin with.
    Word old = __atomic_load_n(at, __ATOMIC_RELAXED);
    for (;;) {
      uint32_t next = 0;
      for (unsigned h = 0; h < sizeof(Word) * 8; h += 16) {
        const uint32_t r = combine_half(op, old >> h & 0xffff, values[i] >> h & 0xffff, format);
        next |= r << h;
      }
      if (__atomic_compare_exchange_n(at, &old, static_cast<Word>(next), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED))
        break;
    }
    out[i] = old;
  });
}

void atomic_small(uint32_t code, uint32_t, const uint64_t* address, uint32_t mask,
                  const void* values, const void*, void* out) {
  const auto op = static_cast<AtomicOp>(code >> 8);
  const uint32_t format = (code & 4) != 0 ? kFormatBfloat : kFormatHalf;
  if ((code & 3) == 2) {
    return atomic_halves(op, format, address, mask, static_cast<const uint32_t*>(values),
                         static_cast<uint32_t*>(out));
  }
  atomic_halves(op, format, address, mask, static_cast<const uint16_t*>(values),
                static_cast<uint16_t*>(out));
}

#if defined(__x86_64__)
[[gnu::target("cx16")]]
#endif
U128 swap_128(U128* at, U128 expected, U128 value) {
  return __sync_val_compare_and_swap(at, expected, value);
}

// cas and exch
void atomic_128(uint32_t code, uint32_t, const uint64_t* address, uint32_t mask, const U128* values,
                const U128* seconds, U128* out) {
  const bool compares = static_cast<AtomicOp>(code >> 8) == AtomicOp::kCas;
  each(mask, [&](int i) {
    auto* at = reinterpret_cast<U128*>(address[i]);
    if (compares) {
      out[i] = swap_128(at, values[i], seconds[i]);
      return;
    }
    U128 old = 0, seen;
    while ((seen = swap_128(at, old, values[i])) != old) old = seen;
    out[i] = old;
  });
}

}  // namespace

void complete_bytes(uint64_t mbarrier, uint64_t bytes) {
  step(MbarrierOp::kComplete, reinterpret_cast<uint64_t*>(mbarrier), bytes);
}

std::span<const RuntimeSymbol> runtime_async_symbols() {
  static const RuntimeSymbol kSymbols[] = {
      {"sg_copy", reinterpret_cast<void*>(copy)},
      {"sg_copy_bulk", reinterpret_cast<void*>(copy_bulk)},
      {"sg_copy_masked", reinterpret_cast<void*>(copy_masked)},
      {"sg_clear", reinterpret_cast<void*>(clear)},
      {"sg_copy_multicast", reinterpret_cast<void*>(copy_multicast)},
      {"sg_mbarrier", reinterpret_cast<void*>(mbarrier)},
      {"sg_atomic_small", reinterpret_cast<void*>(atomic_small)},
      {"sg_atomic128", reinterpret_cast<void*>(atomic_128)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
