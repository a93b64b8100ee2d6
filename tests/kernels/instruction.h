// One instruction form against a C++ function over edge values: divergent and uniform operands, by
// warps and thread by thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace vgpu::softgpu {

// Bits of small floats; the type says which edge values they get and that NaNs are equal.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
struct Half2 {
  uint32_t bits;
};
struct Bfloat2 {
  uint32_t bits;
};
using U128 = unsigned __int128;

// An operand in 16 bytes.
struct Cell {
  uint64_t low = 0, high = 0;
};

// What the machinery must know about a C++ type.
struct OperandKind {
  const char* reg;     // type of its register: "b32", "f32", "pred" …
  const char* memory;  // type of its loads and stores
  unsigned bytes;
  std::vector<Cell> (*edges)();
  bool (*same)(const Cell& a, const Cell& b, double ulps);
};
template <typename T>
const OperandKind& kind_of();

template <typename T>
T unpack(const Cell& c) {
  T v;
  std::memcpy(&v, &c, sizeof v);
  return v;
}
template <typename T>
Cell pack(T v) {
  Cell c;
  std::memcpy(static_cast<void*>(&c), &v, sizeof v);
  return c;
}

struct Form {
  std::string ptx;  // "add.u32", or statements with $d, $a, $b, $c
  const OperandKind* result;
  std::vector<const OperandKind*> operands;
  std::function<Cell(const Cell*)> reference;
  double ulps = 0;
};

// f is called with the operands' C++ types A… and gives D. Up to three operands.
template <typename D, typename A, typename F>
Form unary(std::string ptx, F f, double ulps = 0) {
  return {std::move(ptx),
          &kind_of<D>(),
          {&kind_of<A>()},
          [f](const Cell* c) { return pack<D>(f(unpack<A>(c[0]))); },
          ulps};
}
template <typename D, typename A, typename B, typename F>
Form binary(std::string ptx, F f, double ulps = 0) {
  return {std::move(ptx),
          &kind_of<D>(),
          {&kind_of<A>(), &kind_of<B>()},
          [f](const Cell* c) { return pack<D>(f(unpack<A>(c[0]), unpack<B>(c[1]))); },
          ulps};
}
template <typename D, typename A, typename B, typename C, typename F>
Form ternary(std::string ptx, F f, double ulps = 0) {
  return {
      std::move(ptx),
      &kind_of<D>(),
      {&kind_of<A>(), &kind_of<B>(), &kind_of<C>()},
      [f](const Cell* c) { return pack<D>(f(unpack<A>(c[0]), unpack<B>(c[1]), unpack<C>(c[2]))); },
      ulps};
}

// One expectation for each form. `ulps` of a form allows a float result to be off by that many
// units in the last place.
void check(const std::vector<Form>& forms);

}  // namespace vgpu::softgpu
