// Tables of instruction forms: builds a kernel for each, runs it, compares.
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "executor.h"
#include "small_float.h"

namespace vgpu::softgpu {
namespace {

constexpr size_t kRandomValues = 6;

template <typename T>
std::vector<Cell> integers() {
  constexpr unsigned kBits = sizeof(T) * 8;
  const T top = static_cast<T>(T{1} << (kBits - 1));
  std::vector<T> values = {0,
                           1,
                           2,
                           3,
                           7,
                           static_cast<T>(kBits - 1),
                           static_cast<T>(kBits),
                           static_cast<T>(kBits + 1),
                           static_cast<T>(~T{0}),
                           static_cast<T>(~T{0} - 1),
                           top,
                           static_cast<T>(top - 1),
                           static_cast<T>(top + 1),
                           static_cast<T>(top >> 1)};
  std::mt19937_64 random(kBits);
  for (size_t i = 0; i < kRandomValues; ++i) {
    T v = static_cast<T>(random());
    if constexpr (sizeof(T) == 16) v = v << 64 | random();
    values.push_back(v);
  }
  std::vector<Cell> cells;
  for (T v : values) cells.push_back(pack(v));
  return cells;
}

// Zeros, ones, halves (ties), the ends of the range, subnormals, infinities, NaN; both signs.
template <typename T>
std::vector<Cell> floats() {
  using L = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           1,
                           T(0.5),
                           T(1.5),
                           T(2.5),
                           3,
                           T(0.1),
                           127,
                           128,
                           255,
                           256,
                           T(65504),
                           T(65520),
                           T(2147483648.0),
                           T(9.3e18),
                           L::min(),
                           L::denorm_min(),
                           L::min() - L::denorm_min() * 3,
                           L::max(),
                           L::infinity(),
                           L::quiet_NaN(),
                           1 + L::epsilon(),
                           1 - L::epsilon() / 2};
  std::mt19937_64 random(sizeof(T));
  for (size_t i = 0; i < kRandomValues; ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    values.push_back(static_cast<T>(std::ldexp(unit + 0.5, static_cast<int>(random() % 60) - 30)));
  }
  std::vector<Cell> cells;
  for (T v : values) {
    cells.push_back(pack(v));
    if (v == v) cells.push_back(pack(-v));
  }
  return cells;
}

// Every interesting pattern of a 16-bit float with `mantissa` bits.
template <typename T, unsigned mantissa>
std::vector<Cell> small_floats() {
  const uint16_t infinity = static_cast<uint16_t>(0x7fff >> mantissa << mantissa);
  const uint16_t one = static_cast<uint16_t>((0x7fff >> mantissa >> 1) << mantissa);
  std::vector<uint16_t> values = {0,
                                  1,
                                  2,
                                  3,
                                  static_cast<uint16_t>((1u << mantissa) - 1),
                                  static_cast<uint16_t>(1u << mantissa),
                                  one,
                                  static_cast<uint16_t>(one + 1),
                                  static_cast<uint16_t>(one - 1),
                                  static_cast<uint16_t>(one + (1u << (mantissa - 1))),
                                  static_cast<uint16_t>(one + (5u << mantissa)),
                                  static_cast<uint16_t>(infinity - 1),
                                  infinity,
                                  static_cast<uint16_t>(infinity + (1u << (mantissa - 1)))};
  std::mt19937 random(mantissa);
  for (size_t i = 0; i < kRandomValues; ++i) values.push_back(random() & 0x7fff);
  std::vector<Cell> cells;
  for (uint16_t v : values) {
    cells.push_back(pack(T{v}));
    cells.push_back(pack(T{static_cast<uint16_t>(v | 0x8000)}));
  }
  return cells;
}

template <typename Pair, typename One, unsigned mantissa>
std::vector<Cell> pairs() {
  const auto ones = small_floats<One, mantissa>();
  std::vector<Cell> cells;
  for (size_t i = 0; i < ones.size(); ++i) {
    const uint32_t low = unpack<One>(ones[i]).bits;
    const uint32_t high = unpack<One>(ones[(i * 7 + 3) % ones.size()]).bits;
    cells.push_back(pack(Pair{low | high << 16}));
  }
  return cells;
}

std::vector<Cell> truths() { return {pack(false), pack(true)}; }

bool same_bits(const Cell& a, const Cell& b, double) { return a.low == b.low && a.high == b.high; }

template <typename T>
bool same_float(const Cell& a, const Cell& b, double ulps) {
  const T x = unpack<T>(a), y = unpack<T>(b);
  if (x != x || y != y) return x != x && y != y;
  if (ulps == 0) return same_bits(a, b, 0);
  if (x == y) return true;
  const T next = std::nextafter(std::abs(x), std::numeric_limits<T>::infinity());
  return std::abs(static_cast<double>(x) - static_cast<double>(y)) <=
         ulps * (static_cast<double>(next) - static_cast<double>(std::abs(x)));
}

bool same_small(uint32_t a, uint32_t b, unsigned mantissa, double ulps) {
  const uint32_t infinity = 0x7fffu >> mantissa << mantissa;
  const bool x = (a & 0x7fff) > infinity, y = (b & 0x7fff) > infinity;
  if (x || y) return x && y;
  if (a == b) return true;
  auto ordered = [](uint32_t v) { return (v & 0x8000) != 0 ? -int(v & 0x7fff) : int(v & 0x7fff); };
  return std::abs(ordered(a) - ordered(b)) <= ulps;
}
template <unsigned mantissa>
bool same_one(const Cell& a, const Cell& b, double ulps) {
  return same_small(a.low & 0xffff, b.low & 0xffff, mantissa, ulps);
}
template <unsigned mantissa>
bool same_pair(const Cell& a, const Cell& b, double ulps) {
  return same_small(a.low & 0xffff, b.low & 0xffff, mantissa, ulps) &&
         same_small(a.low >> 16 & 0xffff, b.low >> 16 & 0xffff, mantissa, ulps);
}

}  // namespace

#define VGPU_KIND(T, reg, memory, edges, same)                           \
  template <>                                                            \
  const OperandKind& kind_of<T>() {                                      \
    static const OperandKind kKind{reg, memory, sizeof(T), edges, same}; \
    return kKind;                                                        \
  }
VGPU_KIND(bool, "pred", "b8", truths, same_bits)
VGPU_KIND(uint8_t, "b16", "b8", integers<uint8_t>, same_bits)
VGPU_KIND(uint16_t, "b16", "b16", integers<uint16_t>, same_bits)
VGPU_KIND(uint32_t, "b32", "b32", integers<uint32_t>, same_bits)
VGPU_KIND(uint64_t, "b64", "b64", integers<uint64_t>, same_bits)
VGPU_KIND(U128, "b128", "b128", integers<U128>, same_bits)
VGPU_KIND(int8_t, "b16", "b8", integers<uint8_t>, same_bits)
VGPU_KIND(int16_t, "b16", "b16", integers<uint16_t>, same_bits)
VGPU_KIND(int32_t, "b32", "b32", integers<uint32_t>, same_bits)
VGPU_KIND(int64_t, "b64", "b64", integers<uint64_t>, same_bits)
VGPU_KIND(float, "f32", "f32", floats<float>, same_float<float>)
VGPU_KIND(double, "f64", "f64", floats<double>, same_float<double>)
VGPU_KIND(Half, "b16", "b16", (small_floats<Half, 10>), same_one<10>)
VGPU_KIND(Bfloat, "b16", "b16", (small_floats<Bfloat, 7>), same_one<7>)
VGPU_KIND(Half2, "b32", "b32", (pairs<Half2, Half, 10>), same_pair<10>)
VGPU_KIND(Bfloat2, "b32", "b32", (pairs<Bfloat2, Bfloat, 7>), same_pair<7>)
#undef VGPU_KIND

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// $d, $a… become registers; a form without them gets all its operands in order.
std::string statements(const Form& form) {
  std::string text = form.ptx;
  if (text.find('$') == std::string::npos) {
    text += " $d";
    for (size_t i = 0; i < form.operands.size(); ++i) text += std::string(", $") + "abc"[i];
    text += ";";
  }
  for (const char* name : {"d", "a", "b", "c"})
    text = replaced(text, std::string("$") + name, std::string("%value_") + name);
  return text;
}

std::string load(const OperandKind& kind, const std::string& name) {
  const std::string reg = "%value_" + name, at = ", [%at_" + name + "];\n";
  if (kind.reg != std::string("pred"))
    return std::string("  ld.global.") + kind.memory + " " + reg + at;
  return "  ld.global.u8 %flag" + at + "  setp.ne.u16 " + reg + ", %flag, 0;\n";
}

// One kernel whose element is the thread's number, and one whose element is the block's: there
// everything is uniform.
std::string kernel_text(const Form& form, bool uniform) {
  std::string text = std::string(".visible .entry ") + (uniform ? "uniform" : "divergent") +
                     "(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc)\n{\n";
  text += "  .reg .b16 %flag;\n  .reg .b32 %i, %n;\n  .reg .b64 %at_d, %at_a, %at_b, %at_c, %by;\n";
  text += std::string("  .reg .") + form.result->reg + " %value_d;\n";
  for (size_t k = 0; k < form.operands.size(); ++k)
    text += std::string("  .reg .") + form.operands[k]->reg + " %value_" + "abc"[k] + ";\n";
  text += "  mov.u32 %i, %ctaid.x;\n";
  if (!uniform) text += "  mov.u32 %n, %tid.x;\n  shl.b32 %i, %i, 6;\n  add.u32 %i, %i, %n;\n";
  auto address = [&](const std::string& name, unsigned bytes) {
    text += "  ld.param.u64 %at_" + name + ", [p" + name + "];\n  mul.wide.u32 %by, %i, " +
            std::to_string(bytes) + ";\n  add.s64 %at_" + name + ", %at_" + name + ", %by;\n";
  };
  address("d", form.result->bytes);
  for (size_t k = 0; k < form.operands.size(); ++k) {
    const std::string name(1, "abc"[k]);
    address(name, form.operands[k]->bytes);
    text += load(*form.operands[k], name);
  }
  text += "  " + statements(form) + "\n";
  if (form.result->reg == std::string("pred"))
    text += "  selp.u16 %flag, 1, 0, %value_d;\n  st.global.u8 [%at_d], %flag;\n";
  else
    text += std::string("  st.global.") + form.result->memory + " [%at_d], %value_d;\n";
  return text + "  ret;\n}\n";
}

// All combinations of the operands' edge values, a multiple of a block long.
std::vector<std::vector<Cell>> inputs_of(const Form& form) {
  std::vector<std::vector<Cell>> edges, inputs(form.operands.size());
  for (const OperandKind* kind : form.operands) edges.push_back(kind->edges());
  if (form.operands.size() == 3) {  // every second value of the third operand's list
    auto& third = edges[2];
    for (size_t i = 0; i < third.size() / 2; ++i) third[i] = third[i * 2];
    third.resize(third.size() / 2);
  }
  size_t total = 1;
  for (const auto& list : edges) total *= list.size();
  total = (total + 63) / 64 * 64;
  for (size_t i = 0; i < total; ++i) {
    size_t rest = i;
    for (size_t k = 0; k < edges.size(); ++k) {
      inputs[k].push_back(edges[k][rest % edges[k].size()]);
      rest /= edges[k].size();
    }
  }
  return inputs;
}

std::vector<uint8_t> bytes_of(const std::vector<Cell>& cells, unsigned bytes) {
  std::vector<uint8_t> memory(cells.size() * bytes + 16);
  for (size_t i = 0; i < cells.size(); ++i) std::memcpy(&memory[i * bytes], &cells[i], bytes);
  return memory;
}

std::string hex(const Cell& c) {
  char text[40];
  if (c.high != 0)
    std::snprintf(text, sizeof text, "0x%llx%016llx", static_cast<unsigned long long>(c.high),
                  static_cast<unsigned long long>(c.low));
  else
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(c.low));
  return text;
}

struct Case {
  const Form& form;
  std::vector<std::vector<Cell>> inputs;
  std::vector<Cell> expected;
};

void compare(const Case& c, const std::vector<uint8_t>& got, size_t count, const char* how) {
  for (size_t i = 0; i < count; ++i) {
    Cell value;
    std::memcpy(&value, &got[i * c.form.result->bytes], c.form.result->bytes);
    if (c.form.result->same(c.expected[i], value, c.form.ulps)) continue;
    std::string operands;
    for (const auto& list : c.inputs) operands += " " + hex(list[i]);
    ADD_FAILURE() << c.form.ptx << " (" << how << ") of" << operands << " is " << hex(value)
                  << ", not " << hex(c.expected[i]);
    return;
  }
}

void check_form(const Form& form) {
  Case c{form, inputs_of(form), {}};
  const size_t count = c.inputs[0].size();
  for (size_t i = 0; i < count; ++i) {
    Cell operands[3];
    for (size_t k = 0; k < c.inputs.size(); ++k) operands[k] = c.inputs[k][i];
    c.expected.push_back(form.reference(operands));
  }
  const std::string head = ".version 9.0\n.target sm_120\n.address_size 64\n";
  const std::string text = head + kernel_text(form, false) + kernel_text(form, true);
  std::string error;
  auto module = TestModule::load(text, &error);
  if (module == nullptr) {
    ADD_FAILURE() << form.ptx << ": " << error;
    return;
  }
  std::vector<std::vector<uint8_t>> memory;
  for (size_t k = 0; k < c.inputs.size(); ++k)
    memory.push_back(bytes_of(c.inputs[k], form.operands[k]->bytes));
  std::vector<uint8_t> result(count * form.result->bytes + 16);
  uint64_t params[4] = {reinterpret_cast<uint64_t>(result.data())};
  for (size_t k = 0; k < memory.size(); ++k)
    params[k + 1] = reinterpret_cast<uint64_t>(memory[k].data());
  Launch launch;
  launch.params = params;
  auto run = [&](const char* how, Lanes lanes, bool uniform, size_t elements) {
    launch.block.x = uniform ? 32 : 64;
    launch.grid.x = static_cast<uint32_t>(uniform ? elements : elements / 64);
    std::fill(result.begin(), result.end(), 0xcd);
    const int kernel = module->kernel(uniform ? "uniform" : "divergent");
    if (!module->run(kernel, lanes, launch, &error))
      ADD_FAILURE() << form.ptx << " (" << how << "): " << error;
    else
      compare(c, result, elements, how);
  };
  run("32 lanes", Lanes::kWarp, false, count);
  run("uniform", Lanes::kWarp, true, std::min<size_t>(count, 512));
  if (!needs_whole_warps(form.ptx)) run("one lane", Lanes::kOne, false, 64);
}

}  // namespace

void check(const std::vector<Form>& forms) {
  for (const Form& form : forms) check_form(form);
}

}  // namespace vgpu::softgpu
