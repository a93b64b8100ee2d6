// Turns calls that were not inlined into jumps, so that one function runs the whole warp.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/lower_calls.h"

#include <algorithm>
#include <iterator>

#include "softgpu/passes/inline_calls.h"
#include "softgpu/passes/instruction_builder.h"
#include "softgpu/passes/lowering.h"

namespace vgpu::softgpu {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;

bool needs_lowering(const CallGraph& graph, const Function& f) {
  return std::any_of(f.body.begin(), f.body.end(), [&](const Instruction& in) {
    return in.opcode == "brx" || in.opcode == "alloca" || in.opcode == "stacksave" ||
           in.opcode == "stackrestore" ||
           (in.opcode == "call" && (in.operands[1].kind != Operand::Kind::kSymbol ||
                                    !is_service(graph.resolve(in.operands[1].symbol))));
  });
}

}  // namespace

int Lowering::fresh(const std::string& name, const Type& type) {
  out_->registers.push_back({name, type});
  return static_cast<int>(out_->registers.size()) - 1;
}

void Lowering::put(const std::string& spelling, std::vector<Operand> operands,
                   const Instruction& like) {
  now_->body.push_back(make::instruction(spelling, std::move(operands), like));
}

// An instruction of the function's own text: its variables are in its frame.
void Lowering::put_framed(Instruction in) {
  if (now_->frame_pointer >= 0) {
    for (Operand& o : in.operands) replace_frame_symbols(&o, in);
    for (std::string& m : in.modifiers) {
      if (m == "param") m = "local";
    }
  }
  now_->body.push_back(std::move(in));
}

void Lowering::replace_frame_symbols(Operand* o, const Instruction& like) {
  for (Operand& e : o->elements) replace_frame_symbols(&e, like);
  const auto place = now_->frame.places.find(o->symbol);
  if (o->symbol.empty() || place == now_->frame.places.end()) return;
  const int64_t offset = o->integer + place->second;
  if (o->kind == Operand::Kind::kAddress) {
    *o = make::address(now_->frame_pointer, offset);
    return;
  }
  const int address = fresh("%address", {'b', 64});
  Instruction plain;
  plain.line = like.line;
  plain.column = like.column;
  put("add.s64", {make::reg(address), make::reg(now_->frame_pointer), make::number(offset)}, plain);
  *o = make::reg(address);
}

void Lowering::rebase(Operand* o) const {
  if (o->reg >= 0) o->reg += now_->base;
  if (o->second >= 0) o->second += now_->base;
  for (Operand& e : o->elements) rebase(&e);
}

Lowering::Part* Lowering::need(const std::string& name, const Instruction& call) {
  for (const auto& part : parts_) {
    if (part->name == name) return part.get();
  }
  if (graph_.find(name) == nullptr) {
    *error_ = {call.line, 1, "call of '" + name + "', which is defined nowhere"};
    return nullptr;
  }
  auto part = std::make_unique<Part>();
  part->name = name;
  part->prefix = make::hidden("function " + name);
  part->text = *graph_.find(name);
  if (!inline_calls(*kernel_->module, graph_, &part->text, error_)) return nullptr;
  lower_branch_tables(&part->text);
  part->frame = frame_of(part->text);
  parts_.push_back(std::move(part));
  return parts_.back().get();
}

bool Lowering::lower_function(Part* part) {
  const Function& f = part->text;
  part->base = static_cast<int>(out_->registers.size());
  for (const ptx::Register& r : f.registers) fresh(part->prefix + r.name, r.type);
  part->frame_offset = fresh("%base", {'u', 32});
  part->frame_pointer = fresh("%frame", {'b', 64});
  part->return_id = fresh("%return", {'u', 32});
  for (const auto& [name, variable] : f.variables) {
    if (part->frame.places.count(name) == 0) out_->variables[part->prefix + name] = variable;
  }
  now_ = part;
  Instruction plain;
  plain.line = f.line;
  part->labels.emplace(0, part->prefix);
  put("mov.u32", {make::reg(part->frame_offset), make::reg(sp_)}, plain);
  put("add.u32", {make::reg(sp_), make::reg(sp_), make::number(part->frame.bytes)}, plain);
  put("frame.u64", {make::reg(part->frame_pointer), make::reg(part->frame_offset)}, plain);
  put("mov.u32", {make::reg(part->return_id), make::reg(return_register_)}, plain);
  for (const auto& [index, offset] : part->frame.register_params) {
    const std::string bits = "b" + std::to_string(f.registers[index].type.bits);
    put("ld.local." + bits,
        {make::reg(part->base + index), make::address(part->frame_pointer, offset)}, plain);
  }
  if (!lower_body(part, f, live_after_calls(f))) return false;
  part->labels.emplace(part->body.size(), part->prefix + make::hidden("return"));
  for (const auto& [index, offset] : part->frame.register_returns) {
    const std::string bits = "b" + std::to_string(f.registers[index].type.bits);
    put("st.local." + bits,
        {make::address(part->frame_pointer, offset), make::reg(part->base + index)}, plain);
  }
  put("mov.u32", {make::reg(sp_), make::reg(part->frame_offset)}, plain);
  part->return_switch = part->body.size();
  put("switch", {make::reg(part->return_id), Operand()}, plain);
  return true;
}

bool Lowering::lower_body(Part* part, const Function& f, const std::map<size_t, BitSet>& live) {
  std::multimap<int, std::string> at;
  for (const auto& [label, index] : f.labels) at.emplace(index, label);
  for (size_t i = 0; i <= f.body.size(); ++i) {
    auto [first, last] = at.equal_range(static_cast<int>(i));
    for (; first != last; ++first)
      part->labels.emplace(part->body.size(), part->prefix + first->second);
    if (i == f.body.size()) break;
    const auto live_here = live.find(i);
    if (!lower_instruction(f, f.body[i], live_here == live.end() ? nullptr : &live_here->second))
      return false;
  }
  return true;
}

bool Lowering::lower_instruction(const Function& f, const Instruction& original,
                                 const BitSet* live) {
  Instruction in = original;
  const bool framed = now_->frame_pointer >= 0;
  if (in.guard >= 0) in.guard += now_->base;
  for (Operand& o : in.operands) {
    rebase(&o);
    const auto own = f.variables.find(o.symbol);
    if (framed && own != f.variables.end() && now_->frame.places.count(o.symbol) == 0)
      o.symbol = now_->prefix + o.symbol;
  }
  if (in.opcode == "call" && (in.operands[1].kind != Operand::Kind::kSymbol ||
                              !is_service(graph_.resolve(in.operands[1].symbol)))) {
    return lower_call(f, in, live);
  }
  if (in.opcode == "alloca" || in.opcode == "stacksave" || in.opcode == "stackrestore") {
    lower_alloca(in);
    return true;
  }
  if (framed && in.opcode == "bra") in.operands[0].symbol = now_->prefix + in.operands[0].symbol;
  if (framed && in.opcode == "switch") {
    for (Operand& label : in.operands[1].elements) label.symbol = now_->prefix + label.symbol;
  }
  if (framed && in.opcode == "ret") {
    put("bra", {make::symbol(now_->prefix + make::hidden("return"))}, in);
    return true;
  }
  put_framed(std::move(in));
  return true;
}

// alloca.type d, bytes{, align}; stacksave.type d; stackrestore.type a
void Lowering::lower_alloca(const Instruction& in) {
  const bool wide = in.has("u64") || in.has("b64");
  const auto to_word = [&](const Operand& o) {
    const int word = fresh("%word", {'u', 32});
    put(wide ? "cvt.u32.u64" : "mov.u32", {make::reg(word), o}, in);
    return word;
  };
  if (in.opcode == "stacksave")
    return put(wide ? "cvt.u64.u32" : "mov.u32", {in.operands[0], make::reg(sp_)}, in);
  if (in.opcode == "stackrestore")
    return put("mov.u32", {make::reg(sp_), make::reg(to_word(in.operands[0]))}, in);
  const int bytes = to_word(in.operands[1]);
  constexpr int64_t kUnit = 64, kMost = 1 << 30;  // any alignment up to the unit holds
  kernel_->stack_dynamic = true;
  put("add.u32", {make::reg(sp_), make::reg(sp_), make::number(kUnit - 1)}, in);
  put("and.b32", {make::reg(sp_), make::reg(sp_), make::number(-kUnit)}, in);
  put("frame.u64", {in.operands[0], make::reg(sp_)}, in);
  put("min.u32", {make::reg(bytes), make::reg(bytes), make::number(kMost)}, in);
  put("add.u32", {make::reg(bytes), make::reg(bytes), make::number(15)}, in);
  put("and.b32", {make::reg(bytes), make::reg(bytes), make::number(-16)}, in);
  put("add.u32", {make::reg(sp_), make::reg(sp_), make::reg(bytes)}, in);
  put("stackcheck", {make::reg(sp_)}, in);
}

void Lowering::finish_returns() {
  for (const auto& part : parts_) {
    if (part->frame_pointer < 0) continue;
    Operand& targets = part->body[part->return_switch].operands[1];
    targets.kind = Operand::Kind::kVector;
    for (int id : part->sites)
      targets.elements.push_back(make::symbol(make::hidden("back", id), id));
  }
}

// Stack that calls below `part` need when none of them recurses.
uint32_t Lowering::depth_of(const Part* part, std::set<const Part*>* path) {
  uint32_t deepest = 0;
  path->insert(part);
  for (auto [bytes, next] : deeper_[part]) {
    if (path->count(next) != 0) {
      kernel_->stack_dynamic = true;
      continue;
    }
    deepest = std::max(deepest, bytes + next->frame.bytes + depth_of(next, path));
  }
  path->erase(part);
  return deepest;
}

// Functions that others call come first, so that their lanes run before those that have returned.
void Lowering::assemble() {
  std::vector<Part*> order;
  for (size_t i = 1; i < parts_.size(); ++i) order.push_back(parts_[i].get());
  std::stable_sort(order.begin(), order.end(), [&](const Part* a, const Part* b) {
    return graph_.reaches(b->name, a->name) && !graph_.reaches(a->name, b->name);
  });
  order.push_back(parts_[0].get());
  Instruction plain;
  out_->labels.clear();
  out_->body.push_back(make::instruction("mov.u32", {make::reg(sp_), make::number(0)}, plain));
  out_->body.push_back(make::instruction("bra", {make::symbol(make::hidden("kernel"))}, plain));
  for (Part* part : order) {
    if (part == parts_[0].get()) part->labels.emplace(0, make::hidden("kernel"));
    for (const auto& [at, label] : part->labels)
      out_->labels[label] = static_cast<int>(out_->body.size() + at);
    std::move(part->body.begin(), part->body.end(), std::back_inserter(out_->body));
  }
}

bool Lowering::run() {
  lower_branch_tables(out_);
  if (!needs_lowering(graph_, *out_)) return true;
  sp_ = fresh("%sp", {'u', 32});
  return_register_ = fresh("%back", {'u', 32});
  parts_.push_back(std::make_unique<Part>());
  parts_[0]->name = kernel_->name;
  now_ = parts_[0].get();
  Function own = *out_;
  out_->body.clear();
  if (!lower_body(now_, own, {})) return false;
  for (size_t i = 1; i < parts_.size(); ++i) {
    if (!lower_function(parts_[i].get())) return false;
  }
  finish_returns();
  std::set<const Part*> path;
  kernel_->stack_bytes = depth_of(parts_[0].get(), &path);
  assemble();
  return true;
}

bool lower_calls(const CallGraph& graph, Kernel* kernel, Diagnostic* error) {
  return Lowering(graph, kernel, error).run();
}

}  // namespace vgpu::softgpu
