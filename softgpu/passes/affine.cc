// Registers whose lanes are scalar + lane * stride: most addresses. They are computed once, for
// lane 0. SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <cstdlib>

#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {
namespace {

using ptx::Instruction;
using ptx::Operand;
using ptx::Type;

constexpr int64_t kTop = INT64_MAX;  // not visited yet
constexpr int64_t kNot = Kernel::kNotAffine;
constexpr int64_t kSignedStrideMax = 1 << 16;  // of a signed index of 32 bits, from lane to lane
constexpr unsigned kWarp = 32;

// Facts about one register: its stride over the lanes of a run, and how many low bits of the first
// lane's value are zero for sure.
struct Fact {
  int64_t stride = kTop;
  int zeros = 0;
};

class Affine {
 public:
  // `width`: lanes of a run, within which strides hold.
  Affine(Kernel* k, const Variant& variant, unsigned width)
      : k_(k), in_rows_(variant.row >= width), width_(width) {}

  void run(std::vector<int64_t>* strides) {
    const size_t n = k_->function.registers.size();
    facts_.assign(n, Fact{});
    writes_.assign(n, 0);
    constants_.assign(n, std::nullopt);
    std::vector<int> writes, reads;
    for (const Block& b : k_->blocks) {
      for (const Instruction& in : b.code) {
        registers_of(in, &writes, &reads);
        for (int r : writes) ++writes_[r];
      }
    }
    find_constants();
    for (changed_ = true; changed_;) {
      changed_ = false;
      for (size_t b = 0; b < k_->blocks.size(); ++b) {
        if (!k_->blocks[b].reachable) continue;
        for (const Instruction& in : k_->blocks[b].code) visit(static_cast<int>(b), in);
      }
    }
    k_->constants = constants_;
    strides->assign(n, kNot);
    for (size_t r = 0; r < n; ++r) {
      if (!k_->divergent[r])
        (*strides)[r] = 0;
      else if (facts_[r].stride != kTop)
        (*strides)[r] = facts_[r].stride;
    }
  }

 private:
  void find_constants() {
    for (const Block& b : k_->blocks) {
      for (const Instruction& in : b.code) {
        if (in.opcode != "mov" || in.guard >= 0 || in.operands[0].kind != Operand::Kind::kRegister)
          continue;
        const int r = in.operands[0].reg;
        if (writes_[r] == 1 && in.operands[1].kind == Operand::Kind::kInteger)
          constants_[r] = in.operands[1].integer;
      }
    }
  }

  std::optional<int64_t> constant(const Operand& o) const {
    if (o.kind == Operand::Kind::kInteger) return o.integer;
    if (o.kind == Operand::Kind::kRegister) return constants_[o.reg];
    return std::nullopt;
  }

  static int trailing_zeros(int64_t value) {
    return value == 0 ? 63 : __builtin_ctzll(static_cast<uint64_t>(value));
  }

  Fact of(const Operand& o) const {
    if (auto c = constant(o)) return {0, trailing_zeros(*c)};
    if (o.kind == Operand::Kind::kSpecial) return of_special(o.symbol);
    if (o.kind == Operand::Kind::kSymbol) return of_symbol(o);
    if (o.kind != Operand::Kind::kRegister || o.negated) return {kNot, 0};
    if (!k_->divergent[o.reg]) return {0, facts_[o.reg].stride == kTop ? 63 : facts_[o.reg].zeros};
    return facts_[o.reg];
  }

  Fact of_special(const std::string& name) const {
    const int zeros = trailing_zeros(width_);
    if (name == "%laneid") return {1, width_ == kWarp ? 63 : zeros};
    if (name == "%tid.x") return in_rows_ ? Fact{1, zeros} : Fact{kNot, 0};
    if ((name == "%tid.y" || name == "%tid.z") && !in_rows_) return {kNot, 0};
    if (name == "%ntid.x" && in_rows_) return {0, zeros};
    return name.rfind("%lane", 0) == 0 ? Fact{kNot, 0} : Fact{0, 0};
  }

  // The address of a local variable: one slice per lane.
  Fact of_symbol(const Operand& o) const {
    auto v = k_->function.variables.find(o.symbol);
    if (v == k_->function.variables.end() || v->second.space != ptx::Space::kLocal) return {0, 0};
    return {int64_t{k_->function.local_slice()}, 0};
  }

  static Fact sum(const Fact& a, const Fact& b, int64_t sign) {
    if (a.stride == kNot || b.stride == kNot) return {kNot, 0};
    if (a.stride == kTop || b.stride == kTop) return {kTop, 0};
    return {a.stride + sign * b.stride, std::min(a.zeros, b.zeros)};
  }

  // `extended`: factors are taken as unsigned numbers of 32 bits and the product has 64.
  Fact product(const Operand& x, const Operand& y, bool extended) const {
    const Fact a = of(x), b = of(y);
    if (a.stride == kTop || b.stride == kTop) return {kTop, 0};
    if (a.stride == 0 && b.stride == 0) return {0, std::min(63, a.zeros + b.zeros)};
    const auto cx = constant(x), cy = constant(y);
    const Fact& affine = cy ? a : b;
    if (affine.stride == kNot || (!cx && !cy)) return {kNot, 0};
    int64_t c = cy ? *cy : *cx;
    if (extended) c = static_cast<int64_t>(static_cast<uint32_t>(c));
    if (c > INT32_MAX || c < INT32_MIN) return {kNot, 0};
    return {affine.stride * c, std::min(63, affine.zeros + trailing_zeros(c))};
  }

  // 32 bits to 64: exact unless the value wraps inside the run. For unsigned values the first lane
  // must be known to be a multiple of what the run spans. A signed index that wraps is undefined in
  // the source, but a hash that was made signed is not: only steps that an index may have count.
  Fact widen(const Fact& f, bool is_signed) const {
    if (f.stride == kTop || f.stride == kNot || f.stride == 0) return f;
    if (is_signed) return std::abs(f.stride) <= kSignedStrideMax ? f : Fact{kNot, 0};
    const int64_t span = f.stride * (width_ - 1);
    if (f.stride > 0 && f.zeros < 32 && (1ll << f.zeros) > span) return f;
    return {kNot, 0};
  }

  Fact multiply(const Instruction& in, const Type& type) const {
    Fact f = product(in.operands[1], in.operands[2], in.has("wide") && type.kind != 's');
    if (in.has("hi")) return {kNot, 0};
    if (!in.has("wide")) return f;
    const Fact a = widen(of(in.operands[1]), type.kind == 's'),
               b = widen(of(in.operands[2]), type.kind == 's');
    return a.stride == kNot || b.stride == kNot ? Fact{kNot, 0} : f;
  }

  Fact evaluate(const Instruction& in, const Type& type) const {
    if (in.has("cc") || in.has("sat") || type.is_real() || type.is_pair() || type.bits < 32)
      return {kNot, 0};
    const std::string& op = in.opcode;
    const auto& o = in.operands;
    if (op == "mov" && o[1].kind != Operand::Kind::kVector) return of(o[1]);
    if (op == "cvta") return of(o[1]);
    if (op == "add") return sum(of(o[1]), of(o[2]), 1);
    if (op == "sub") return sum(of(o[1]), of(o[2]), -1);
    if (op == "mul") return multiply(in, type);
    if (op == "mad") {
      const Fact p = multiply(in, type);
      return p.stride == kNot ? p : sum(p, of(o[3]), 1);
    }
    if (op == "shl") {
      const auto c = constant(o[2]);
      const Fact a = of(o[1]);
      if (!c || *c < 0 || *c > 31 || a.stride == kNot) return {kNot, 0};
      return a.stride == kTop
                 ? a
                 : Fact{a.stride << *c, std::min<int>(63, a.zeros + static_cast<int>(*c))};
    }
    Type to, from;
    if (op == "cvt" && in.type_from_end(0, &from) && in.type_from_end(1, &to) && from.bits == 32 &&
        to.bits == 64 && from.kind != 'f' && to.kind != 'f') {
      return widen(of(o[1]), from.kind == 's');
    }
    return {kNot, 0};
  }

  void visit(int b, const Instruction& in) {
    std::vector<int> writes, reads;
    registers_of(in, &writes, &reads);
    for (int r : writes) {
      Fact next{kNot, 0};
      Type type;
      const bool plain =
          in.operands[0].kind == Operand::Kind::kRegister && in.operands[0].second < 0;
      const bool guarded = in.guard >= 0 && k_->divergent[in.guard];
      if (plain && !guarded && !k_->masked[b].test(r) && in.type_from_end(0, &type))
        next = evaluate(in, type);
      if (in.guard >= 0 && next.stride != kNot && writes_[r] == 1) next = {kNot, 0};
      if (!holds_integers(r)) next = {kNot, 0};  // lanes are made by adding
      merge(r, next);
    }
  }

  bool holds_integers(int r) const {
    const Type& t = k_->function.registers[r].type;
    return (t.kind == 'b' || t.kind == 'u' || t.kind == 's') && t.bits >= 32;
  }

  // All writes of a register must agree on the stride.
  void merge(int r, const Fact& next) {
    Fact& now = facts_[r];
    if (next.stride == kTop) return;
    Fact joined = next;
    if (now.stride != kTop) {
      joined.stride = now.stride == next.stride ? now.stride : kNot;
      joined.zeros = std::min(now.zeros, next.zeros);
    }
    if (joined.stride == now.stride && joined.zeros == now.zeros) return;
    now = joined;
    changed_ = true;
  }

  Kernel* k_;
  bool in_rows_;  // a run lies in one row of threads
  unsigned width_;
  std::vector<Fact> facts_;
  std::vector<int> writes_;
  std::vector<std::optional<int64_t>> constants_;
  bool changed_ = false;
};

}  // namespace

void find_affine(Kernel* kernel, const Variant& variant) {
  Affine(kernel, variant, kWarp).run(&kernel->stride);
  kernel->row_stride.clear();
  if (variant.row != 0 && variant.row != kWarp && variant.lanes == kWarp)
    Affine(kernel, variant, variant.row).run(&kernel->row_stride);
}

}  // namespace vgpu::softgpu
