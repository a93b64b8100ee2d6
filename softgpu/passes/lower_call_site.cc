// Turns one call into a jump: what it passes, what it keeps, and where it goes on.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/passes/instruction_builder.h"
#include "softgpu/passes/lowering.h"

namespace vgpu::softgpu {

bool Lowering::find_callee(const Function& f, const Instruction& call, Callee* callee) {
  const std::vector<std::string> names = graph_.targets(f, call);
  if (names.empty()) {
    const std::string& name = call.operands[1].symbol;
    *error_ = {call.line, 1,
               name.empty() ? "indirect call, and no function of its shape has its address taken"
                            : "call of '" + name + "', which is defined nowhere"};
    return false;
  }
  for (const std::string& name : names) {
    Part* const part = need(name, call);
    if (part == nullptr) return false;
    callee->parts.push_back(part);
    callee->bytes = std::max(callee->bytes, part->frame.bytes);
  }
  callee->frame = &callee->parts.front()->frame;
  return true;
}

bool Lowering::lower_call(const Function& f, const Instruction& guarded, const BitSet* live) {
  Callee callee;
  if (!find_callee(f, guarded, &callee)) return false;
  Instruction call = guarded;
  const std::string over = now_->prefix + make::hidden("over", ++labels_);
  if (guarded.guard >= 0) {
    Instruction skip = guarded;
    skip.guard_negated = !skip.guard_negated;
    put("bra", {make::symbol(over)}, skip);
    call.guard = -1;
    call.guard_negated = false;
  }
  uint32_t spill_bytes = 0;
  const auto slots = spilled(callee, live, &spill_bytes);
  const int top = fresh("%top", {'u', 32});
  put("add.u32", {make::reg(top), make::reg(sp_), make::number(spill_bytes + callee.bytes)}, call);
  put("stackcheck", {make::reg(top)}, call);
  note_depth(spill_bytes, callee);
  spill(slots, call);
  if (spill_bytes != 0)
    put("add.u32", {make::reg(sp_), make::reg(sp_), make::number(spill_bytes)}, call);
  copy_in(call, *callee.frame);
  const int id = ++site_count_;
  for (Part* part : callee.parts) part->sites.insert(id);
  jump(call, callee, id);
  now_->labels.emplace(now_->body.size(), make::hidden("back", id));
  const int results = fresh("%results", {'b', 64});
  put("frame.u64", {make::reg(results), make::reg(sp_)}, call);
  if (spill_bytes != 0)
    put("sub.u32", {make::reg(sp_), make::reg(sp_), make::number(spill_bytes)}, call);
  fill(slots, call);
  copy_out(call, *callee.frame, results);
  now_->labels.emplace(now_->body.size(), over);
  return true;
}

void Lowering::jump(const Instruction& call, const Callee& callee, int id) {
  put("mov.u32", {make::reg(return_register_), make::number(id)}, call);
  if (call.operands[1].kind == Operand::Kind::kSymbol) {
    put("bra.call", {make::symbol(callee.parts[0]->prefix)}, call);
    return;
  }
  const int which = fresh("%which", {'u', 32}), same = fresh("%same", {'p', 1});
  put("mov.u32", {make::reg(which), make::number(0)}, call);
  Operand targets;
  targets.kind = Operand::Kind::kVector;
  int64_t number = 0;
  for (const Part* part : callee.parts) {
    ++number;
    put("setp.eq.u64", {make::reg(same), call.operands[1], make::symbol(part->name)}, call);
    put("selp.b32", {make::reg(which), make::number(number), make::reg(which), make::reg(same)},
        call);
    targets.elements.push_back(make::symbol(part->prefix, number));
  }
  put("switch.call", {make::reg(which), targets}, call);
}

// Copies one argument or result; `to` and `from` are addresses, or registers and numbers.
void Lowering::copy_bytes(const Operand& to, const Operand& from, const ptx::Variable& v,
                          const Instruction& like) {
  const auto whole = "b" + std::to_string(v.bytes * 8);
  const auto framed = [&](const std::string& spelling, std::vector<Operand> operands) {
    put_framed(make::instruction(spelling, std::move(operands), like));
  };
  if (to.kind != Operand::Kind::kAddress) return framed("ld.local." + whole, {to, from});
  if (from.kind != Operand::Kind::kAddress) return framed("st.local." + whole, {to, from});
  for (uint64_t at = 0; at < v.bytes;) {
    uint64_t size = 8;
    while (size > v.align || at + size > v.bytes) size /= 2;
    const int value = fresh("%copy", {'b', static_cast<uint8_t>(size == 8 ? 64 : 32)});
    const std::string bits = "b" + std::to_string(size * 8);
    Operand source = from, target = to;
    source.integer += static_cast<int64_t>(at);
    target.integer += static_cast<int64_t>(at);
    framed("ld.local." + bits, {make::reg(value), source});
    framed("st.local." + bits, {target, make::reg(value)});
    at += size;
  }
}

void Lowering::copy_in(const Instruction& call, const Frame& frame) {
  const int base = fresh("%arguments", {'b', 64});
  put("frame.u64", {make::reg(base), make::reg(sp_)}, call);
  const auto& actual = call.operands[2].elements;
  for (size_t i = 0; i < frame.params.size() && i < actual.size(); ++i) {
    const bool in_memory = actual[i].kind == Operand::Kind::kSymbol;
    copy_bytes(make::address(base, frame.params[i].offset),
               in_memory ? make::address(actual[i].symbol, 0) : actual[i], frame.params[i], call);
  }
}

void Lowering::copy_out(const Instruction& call, const Frame& frame, int from) {
  const auto& actual = call.operands[0].elements;
  for (size_t i = 0; i < frame.returns.size() && i < actual.size(); ++i) {
    if (actual[i].kind == Operand::Kind::kSink) continue;
    const bool in_memory = actual[i].kind == Operand::Kind::kSymbol;
    copy_bytes(in_memory ? make::address(actual[i].symbol, 0) : actual[i],
               make::address(from, frame.returns[i].offset), frame.returns[i], call);
  }
}

// Registers that the call may overwrite by entering this function again, and their places.
std::vector<std::pair<int, uint32_t>> Lowering::spilled(const Callee& callee, const BitSet* live,
                                                        uint32_t* bytes) const {
  std::vector<std::pair<int, uint32_t>> slots;
  *bytes = 0;
  const bool again = std::any_of(callee.parts.begin(), callee.parts.end(), [&](const Part* p) {
    return p == now_ || graph_.reaches(p->name, now_->name);
  });
  if (now_->frame_pointer < 0 || !again) return slots;
  const auto keep = [&](int r) {
    const uint32_t size = std::max<uint32_t>(out_->registers[r].type.bits, 32) / 8;
    *bytes = (*bytes + size - 1) / size * size;
    slots.emplace_back(r, *bytes);
    *bytes += size;
  };
  for (int r = now_->base; r < now_->frame_offset; ++r) {
    if (live != nullptr && live->test(static_cast<size_t>(r - now_->base))) keep(r);
  }
  keep(now_->frame_offset);
  keep(now_->return_id);
  *bytes = (*bytes + 15) / 16 * 16;
  return slots;
}

void Lowering::spill(const std::vector<std::pair<int, uint32_t>>& slots, const Instruction& like) {
  if (slots.empty()) return;
  const int base = fresh("%spill", {'b', 64});
  put("frame.u64", {make::reg(base), make::reg(sp_)}, like);
  for (auto [r, offset] : slots) {
    const Type type = out_->registers[r].type;
    int value = r;
    if (type.kind == 'p') {
      value = fresh("%flag", {'u', 32});
      put("selp.b32", {make::reg(value), make::number(1), make::number(0), make::reg(r)}, like);
    }
    const std::string bits = std::to_string(type.kind == 'p' ? 32 : type.bits);
    put("st.local.b" + bits, {make::address(base, offset), make::reg(value)}, like);
  }
}

void Lowering::fill(const std::vector<std::pair<int, uint32_t>>& slots, const Instruction& like) {
  if (slots.empty()) return;
  const int base = fresh("%spill", {'b', 64});
  put("frame.u64", {make::reg(base), make::reg(sp_)}, like);
  for (auto [r, offset] : slots) {
    const Type type = out_->registers[r].type;
    if (type.kind != 'p') {
      put("ld.local.b" + std::to_string(type.bits), {make::reg(r), make::address(base, offset)},
          like);
      continue;
    }
    const int value = fresh("%flag", {'u', 32});
    put("ld.local.b32", {make::reg(value), make::address(base, offset)}, like);
    put("setp.ne.u32", {make::reg(r), make::reg(value), make::number(0)}, like);
  }
  put("frame.u64", {make::reg(now_->frame_pointer), make::reg(now_->frame_offset)}, like);
}

void Lowering::note_depth(uint32_t bytes, const Callee& callee) {
  for (const Part* part : callee.parts) deeper_[now_].emplace_back(bytes, part);
}

}  // namespace vgpu::softgpu
