// Integer arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "instruction.h"

namespace vgpu::softgpu {
namespace {

using U = uint32_t;
using S = int32_t;
using UL = uint64_t;
using SL = int64_t;
using W = uint16_t;

template <typename T>
T clamped(__int128 v) {
  using L = std::numeric_limits<T>;
  return v < L::min() ? L::min() : v > L::max() ? L::max() : static_cast<T>(v);
}

TEST(IntegerForms, Sums) {
  check({binary<U, U, U>("add.u32", [](U a, U b) { return a + b; }),
         binary<UL, UL, UL>("sub.s64", [](UL a, UL b) { return a - b; }),
         binary<W, W, W>("add.u16", [](W a, W b) { return W(a + b); }),
         binary<S, S, S>("add.sat.s32", [](S a, S b) { return clamped<S>(__int128{a} + b); }),
         binary<S, S, S>("sub.sat.s32", [](S a, S b) { return clamped<S>(__int128{a} - b); }),
         ternary<U, U, U, U>("sad.u32", [](U a, U b, U c) { return c + (a < b ? b - a : a - b); }),
         ternary<S, S, S, S>("sad.s32", [](S a, S b, S c) {
           return S(U(c) + (a < b ? U(b) - U(a) : U(a) - U(b)));
         })});
}

TEST(IntegerForms, CarryChains) {
  check({ternary<UL, U, U, U>("{ .reg .b32 l, h; add.cc.u32 l, $a, $b; addc.u32 h, $c, $a; "
                              "mov.b64 $d, {l, h}; }",
                              [](U a, U b, U c) {
                                const UL low = UL{a} + b;
                                return (low & ~0u) | UL{U(c + a + U(low >> 32))} << 32;
                              }),
         ternary<UL, U, U, U>(
             "{ .reg .b32 l, h; sub.cc.u32 l, $a, $b; subc.u32 h, $c, $a; "
             "mov.b64 $d, {l, h}; }",
             [](U a, U b, U c) { return UL{U(a - b)} | UL{U(c - a - (a < b ? 1 : 0))} << 32; }),
         ternary<UL, U, U, U>("{ .reg .b32 l, h; mad.lo.cc.u32 l, $a, $b, $c; "
                              "madc.hi.u32 h, $a, $b, 0; mov.b64 $d, {l, h}; }",
                              [](U a, U b, U c) { return UL{a} * b + c; }),
         binary<U128, UL, UL>("{ .reg .b64 l, h; add.cc.u64 l, $a, $b; addc.u64 h, 0, 0; "
                              "mov.b128 $d, {l, h}; }",
                              [](UL a, UL b) { return U128{a} + b; })});
}

TEST(IntegerForms, Products) {
  check({binary<U, U, U>("mul.hi.u32", [](U a, U b) { return U(UL{a} * b >> 32); }),
         binary<S, S, S>("mul.hi.s32", [](S a, S b) { return S(SL{a} * b >> 32); }),
         binary<UL, UL, UL>("mul.hi.u64", [](UL a, UL b) { return UL(U128{a} * b >> 64); }),
         binary<SL, SL, SL>("mul.hi.s64", [](SL a, SL b) { return SL(__int128{a} * b >> 64); }),
         binary<UL, U, U>("mul.wide.u32", [](U a, U b) { return UL{a} * b; }),
         binary<SL, S, S>("mul.wide.s32", [](S a, S b) { return SL{a} * b; }),
         binary<U, W, W>("mul.wide.u16", [](W a, W b) { return U{a} * b; }),
         binary<W, W, W>("mul.hi.u16", [](W a, W b) { return W(U{a} * b >> 16); }),
         ternary<U, U, U, U>("mad.hi.u32", [](U a, U b, U c) { return U(UL{a} * b >> 32) + c; }),
         ternary<S, S, S, S>("mad.hi.sat.s32",
                             [](S a, S b, S c) { return clamped<S>((SL{a} * b >> 32) + c); }),
         ternary<UL, U, U, UL>("mad.wide.u32", [](U a, U b, UL c) { return UL{a} * b + c; })});
  auto u24 = [](U v) { return v & 0xffffff; };
  auto s24 = [](S v) { return SL(S(U(v) << 8) >> 8); };
  check({binary<U, U, U>("mul24.lo.u32", [=](U a, U b) { return U(UL{u24(a)} * u24(b)); }),
         binary<U, U, U>("mul24.hi.u32", [=](U a, U b) { return U(UL{u24(a)} * u24(b) >> 16); }),
         binary<S, S, S>("mul24.lo.s32", [=](S a, S b) { return S(s24(a) * s24(b)); }),
         binary<S, S, S>("mul24.hi.s32", [=](S a, S b) { return S(s24(a) * s24(b) >> 16); })});
}

TEST(IntegerForms, QuotientsOfSaneOperands) {
  // Division by zero and INT_MIN / -1 have no defined result; they must not fault.
  check({binary<U, U, U>("{ .reg .b32 x; or.b32 x, $b, 1; div.u32 $d, $a, x; }",
                         [](U a, U b) { return a / (b | 1); }),
         binary<U, U, U>("{ .reg .b32 x; or.b32 x, $b, 1; rem.u32 $d, $a, x; }",
                         [](U a, U b) { return a % (b | 1); }),
         binary<SL, SL, SL>("{ .reg .b64 x; or.b64 x, $b, 2; div.s64 $d, $a, x; }",
                            [](SL a, SL b) { return (b | 2) == -1 ? SL(-UL(a)) : a / (b | 2); }),
         binary<U, U, U>("{ .reg .b32 x; div.s32 x, $a, $b; rem.s32 x, $a, $b; mov.b32 $d, $a; }",
                         [](U a, U) { return a; })});
}

TEST(IntegerForms, Extremes) {
  check(
      {binary<S, S, S>("min.s32", [](S a, S b) { return std::min(a, b); }),
       binary<U, U, U>("max.u32", [](U a, U b) { return std::max(a, b); }),
       binary<SL, SL, SL>("max.s64", [](SL a, SL b) { return std::max(a, b); }),
       unary<S, S>("abs.s32", [](S a) { return S(a < 0 ? -U(a) : U(a)); }),
       unary<S, S>("neg.s32", [](S a) { return S(-U(a)); }),
       binary<U, U, U>("add.s16x2",
                       [](U a, U b) { return ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16; }),
       binary<U, U, U>("max.u16x2",
                       [](U a, U b) {
                         return std::max(a & 0xffff, b & 0xffff) | std::max(a >> 16, b >> 16) << 16;
                       }),
       binary<U, U, U>("min.s16x2.relu", [](U a, U b) {
         auto one = [](U x, U y) { return U(W(std::max(0, S(std::min(int16_t(x), int16_t(y)))))); };
         return one(a, b) | one(a >> 16, b >> 16) << 16;
       })});
}

TEST(IntegerForms, ShiftsEndAtTheWidth) {
  auto clamp = [](U n) { return std::min<U>(n, 32); };
  check({binary<U, U, U>("shl.b32", [](U a, U n) { return n > 31 ? 0 : a << n; }),
         binary<U, U, U>("shr.u32", [](U a, U n) { return n > 31 ? 0 : a >> n; }),
         binary<S, S, U>("shr.s32", [](S a, U n) { return a >> std::min<U>(n, 31); }),
         binary<UL, UL, U>("shl.b64", [](UL a, U n) { return n > 63 ? 0 : a << n; }),
         binary<W, W, U>("shr.u16", [](W a, U n) { return W(n > 15 ? 0 : a >> n); }),
         ternary<U, U, U, U>("shf.l.wrap.b32",
                             [](U a, U b, U c) { return U((UL{b} << 32 | a) << (c & 31) >> 32); }),
         ternary<U, U, U, U>("shf.r.wrap.b32",
                             [](U a, U b, U c) { return U((UL{b} << 32 | a) >> (c & 31)); }),
         ternary<U, U, U, U>("shf.l.clamp.b32",
                             [=](U a, U b, U c) { return U((UL{b} << 32 | a) << clamp(c) >> 32); }),
         ternary<U, U, U, U>("shf.r.clamp.b32",
                             [=](U a, U b, U c) { return U((UL{b} << 32 | a) >> clamp(c)); })});
}

TEST(IntegerForms, Bits) {
  check({unary<U, U>("popc.b32", [](U a) { return U(std::popcount(a)); }),
         unary<U, UL>("popc.b64", [](UL a) { return U(std::popcount(a)); }),
         unary<U, U>("clz.b32", [](U a) { return U(std::countl_zero(a)); }),
         unary<U, UL>("clz.b64", [](UL a) { return U(std::countl_zero(a)); }),
         unary<U, U>("bfind.u32", [](U a) { return a == 0 ? ~0u : 31 - std::countl_zero(a); }),
         unary<U, U>("bfind.shiftamt.u32", [](U a) { return a == 0 ? ~0u : std::countl_zero(a); }),
         unary<U, S>("bfind.s32",
                     [](S a) {
                       const U v = a < 0 ? ~U(a) : U(a);
                       return v == 0 ? ~0u : U(31 - std::countl_zero(v));
                     }),
         unary<U, UL>("bfind.u64", [](UL a) { return a == 0 ? ~0u : U(63 - std::countl_zero(a)); }),
         unary<U, U>("brev.b32",
                     [](U a) {
                       U r = 0;
                       for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
                       return r;
                     }),
         unary<U, U>("cnot.b32", [](U a) { return U(a == 0); }),
         ternary<U, U, U, U>("lop3.b32 $d, $a, $b, $c, 0xca;",
                             [](U a, U b, U c) { return (a & b) | (~a & c); }),
         binary<U, U, U>("bmsk.clamp.b32",
                         [](U a, U b) {
                           const UL ones = (UL{1} << std::min<U>(b, 32)) - 1;
                           return U(ones << std::min<U>(a, 32));
                         }),
         binary<U, U, U>("bmsk.wrap.b32",
                         [](U a, U b) { return U(((UL{1} << (b & 31)) - 1) << (a & 31)); }),
         binary<S, S, U>("szext.clamp.s32",
                         [](S a, U n) {
                           if (n >= 32) return a;
                           return n == 0 ? 0 : S(U(a) << (32 - n)) >> (32 - n);
                         }),
         binary<U, U, U>("szext.wrap.u32", [](U a, U n) { return a & ((1u << (n & 31)) - 1); })});
}

TEST(IntegerForms, Fields) {
  auto field = [](U len) { return len > 31 ? ~0u : (1u << len) - 1; };
  check({ternary<U, U, U, U>("bfe.u32",
                             [=](U a, U pos, U len) {
                               pos &= 255, len &= 255;
                               return pos > 31 ? 0 : a >> pos & field(len);
                             }),
         ternary<S, S, U, U>("bfe.s32",
                             [](S a, U pos, U len) {
                               pos &= 255, len &= 255;
                               if (len == 0) return 0;
                               const U top = std::min<U>(pos + len - 1, 31);
                               U r = 0;
                               for (U i = 0; i < 32; ++i) {
                                 const U from = i < len && pos + i <= 31 ? pos + i : top;
                                 r |= (U(a) >> from & 1) << i;
                               }
                               return S(r);
                             }),
         ternary<U, U, U, U>("bfi.b32 $d, $a, $b, $c, 7;", [](U a, U b, U pos) {
           pos &= 255;
           const U mask = pos > 31 ? 0 : 127u << pos;
           return (b & ~mask) | (pos > 31 ? 0 : a << pos & mask);
         })});
}

U permuted(U a, U b, U selector) {
  const UL both = UL{b} << 32 | a;
  U r = 0;
  for (int i = 0; i < 4; ++i) {
    const U pick = selector >> (4 * i) & 15;
    U byte = U(both >> (8 * (pick & 7))) & 255;
    if (pick > 7) byte = (byte & 128) != 0 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}

TEST(IntegerForms, Permutations) {
  check({ternary<U, U, U, U>("prmt.b32", permuted)});
  const struct {
    const char* mode;
    U selectors[4];
  } kModes[] = {
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
  for (const auto& m : kModes) {
    check({ternary<U, U, U, U>(std::string("prmt.b32.") + m.mode,
                               [m](U a, U b, U c) { return permuted(a, b, m.selectors[c & 3]); })});
  }
}

TEST(IntegerForms, DotProducts) {
  auto bytes = [](U a, U b, U c, bool sa, bool sb) {
    for (int i = 0; i < 4; ++i) {
      const S x = sa ? int8_t(a >> (8 * i)) : S(a >> (8 * i) & 255);
      const S y = sb ? int8_t(b >> (8 * i)) : S(b >> (8 * i) & 255);
      c += U(x * y);
    }
    return c;
  };
  auto halves = [](U a, U b, U c, bool hi) {
    for (int i = 0; i < 2; ++i)
      c += U(S(int16_t(a >> (16 * i))) * S(b >> (8 * (i + (hi ? 2 : 0))) & 255));
    return c;
  };
  check(
      {ternary<U, U, U, U>("dp4a.s32.s32", [=](U a, U b, U c) { return bytes(a, b, c, 1, 1); }),
       ternary<U, U, U, U>("dp4a.u32.s32", [=](U a, U b, U c) { return bytes(a, b, c, 0, 1); }),
       ternary<U, U, U, U>("dp4a.u32.u32", [=](U a, U b, U c) { return bytes(a, b, c, 0, 0); }),
       ternary<U, U, U, U>("dp2a.lo.s32.u32", [=](U a, U b, U c) { return halves(a, b, c, 0); }),
       ternary<U, U, U, U>("dp2a.hi.s32.u32", [=](U a, U b, U c) { return halves(a, b, c, 1); })});
}

TEST(IntegerForms, Video) {
  check(
      {ternary<U, U, U, U>("vadd.u32.u32.u32.sat $d, $a.b0, $b.h1, $c;",
                           [](U a, U b, U c) { return (a & 255) + (b >> 16) + c; }),
       binary<S, S, S>("vsub.s32.s32.s32.sat",
                       [](S a, S b) { return clamped<S>(__int128{a} - b); }),
       ternary<S, S, S, S>("vabsdiff.s32.s32.s32.max $d, $a.h0, $b.b3, $c;",
                           [](S a, S b, S c) {
                             const S x = int16_t(a), y = int8_t(b >> 24);
                             return std::max(x < y ? y - x : x - y, c);
                           }),
       ternary<U, U, U, U>("vmax.u32.u32.u32 $d.h1, $a.b1, $b.b2, $c;",
                           [](U a, U b, U c) {
                             return (c & 0xffff) | std::max(a >> 8 & 255, b >> 16 & 255) << 16;
                           }),
       binary<U, U, U>("vshr.u32.u32.u32.clamp", [](U a, U n) { return n > 31 ? 0 : a >> n; }),
       binary<U, U, U>("vset.u32.u32.lt", [](U a, U b) { return U(a < b); }),
       ternary<S, S, S, S>("vmad.s32.s32.s32.shr7 $d, $a.h0, $b.h0, $c;",
                           [](S a, S b, S c) { return S((SL(int16_t(a)) * int16_t(b) + c) >> 7); }),
       ternary<S, S, S, S>("vmad.s32.s32.s32.sat $d, $a, $b, -$c;",
                           [](S a, S b, S c) { return clamped<S>(__int128{a} * b - c); }),
       ternary<S, S, S, S>(
           "vmad.s32.s32.s32.sat $d, -$a.b1, $b, $c;",
           [](S a, S b, S c) { return clamped<S>(-__int128{int8_t(a >> 8)} * b + c); }),
       ternary<U, U, U, U>(
           "vmad.u32.u32.u32.po.sat.shr15 $d, $a, $b, $c;",
           [](U a, U b, U c) { return clamped<U>((__int128{a} * b + c + 1) >> 15); }),
       // What it gives is signed by its sources and signs, not by what the result is called.
       ternary<U, S, S, S>("vmad.u32.s32.s32.sat $d, $a, $b, $c;",
                           [](S a, S b, S c) { return U(clamped<S>(__int128{a} * b + c)); }),
       ternary<U, S, S, S>("vmad.u32.s32.s32.shr7 $d, $a.h0, $b.h0, $c;",
                           [](S a, S b, S c) { return U((SL(int16_t(a)) * int16_t(b) + c) >> 7); }),
       binary<U, U, U>("vabsdiff4.u32.u32.u32 $d, $a, $b, 0;",
                       [](U a, U b) {
                         U r = 0;
                         for (int i = 0; i < 32; i += 8) {
                           const S x = a >> i & 255, y = b >> i & 255;
                           r |= U(x < y ? y - x : x - y) << i;
                         }
                         return r;
                       }),
       ternary<U, U, U, U>("vabsdiff2.u32.u32.u32.add",
                           [](U a, U b, U c) {
                             for (int i = 0; i < 32; i += 16) {
                               const S x = a >> i & 0xffff, y = b >> i & 0xffff;
                               c += U(x < y ? y - x : x - y);
                             }
                             return c;
                           }),
       binary<U, U, U>("vadd2.s32.s32.s32.sat $d, $a, $b, 0;", [](U a, U b) {
         auto one = [](U x, U y) {
           return U(W(clamped<int16_t>(__int128{int16_t(x)} + int16_t(y))));
         };
         return one(a, b) | one(a >> 16, b >> 16) << 16;
       })});
}

TEST(IntegerForms, Selections) {
  check(
      {ternary<U, U, U, bool>("selp.b32", [](U a, U b, bool p) { return p ? a : b; }),
       ternary<U, U, U, S>("slct.u32.s32", [](U a, U b, S c) { return c >= 0 ? a : b; }),
       ternary<U, U, U, float>("slct.u32.f32", [](U a, U b, float c) { return c >= 0 ? a : b; }),
       ternary<U, U, U, float>("slct.ftz.u32.f32",
                               [](U a, U b, float c) { return c > -0x1p-126f ? a : b; }),
       binary<bool, S, S>("setp.le.s32", [](S a, S b) { return a <= b; }),
       binary<bool, U, U>("setp.hi.u32", [](U a, U b) { return a > b; }),
       ternary<bool, U, U, bool>("setp.eq.and.u32", [](U a, U b, bool c) { return a == b && c; }),
       ternary<bool, U, U, bool>("{ .reg .pred p; setp.lt.xor.u32 p|$d, $a, $b, $c; }",
                                 [](U a, U b, bool c) { return !(a < b) != c; }),
       binary<U, float, float>("set.gt.u32.f32", [](float a, float b) { return a > b ? ~0u : 0u; }),
       binary<float, S, S>("set.ne.f32.s32", [](S a, S b) { return a != b ? 1.0f : 0.0f; }),
       ternary<U, U, U, S>("fns.b32", [](U mask, U base, S n) {
         if (n == 0) return base < 32 && (mask >> base & 1) != 0 ? base : ~0u;
         SL count = (n < 0 ? -SL{n} : SL{n}) - 1;
         for (SL at = base; at >= 0 && at < 32; at += n < 0 ? -1 : 1) {
           if ((mask >> at & 1) != 0 && count-- == 0) return U(at);
         }
         return ~0u;
       })});
}

}  // namespace
}  // namespace vgpu::softgpu
