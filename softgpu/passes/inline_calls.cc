// Puts the bodies of called functions in the place of their calls.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/inline_calls.h"

#include <map>

#include "softgpu/passes/instruction_builder.h"

namespace vgpu::softgpu {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;

constexpr int kDepthMax = 64;
constexpr size_t kInstructionsMax = 1 << 20;

// Rewrites one copied body into its caller: new numbers for registers, new names for labels and
// variables.
class Inliner {
 public:
  Inliner(const ptx::Module& module, const CallGraph& graph, Function* caller, Diagnostic* error)
      : module_(module), graph_(graph), caller_(caller), error_(error) {}

  bool run() {
    std::vector<Instruction> body = std::move(caller_->body);
    std::map<std::string, int> labels = std::move(caller_->labels);
    caller_->body.clear();
    caller_->labels.clear();
    return expand(body, labels, 0, [](const std::string& l) { return l; });
  }

 private:
  template <typename Rename>
  bool expand(const std::vector<Instruction>& body, const std::map<std::string, int>& labels,
              int depth, Rename rename) {
    std::multimap<int, std::string> at;
    for (const auto& [label, index] : labels) at.emplace(index, rename(label));
    for (size_t i = 0; i <= body.size(); ++i) {
      auto [first, last] = at.equal_range(static_cast<int>(i));
      for (; first != last; ++first)
        caller_->labels[first->second] = static_cast<int>(caller_->body.size());
      if (i == body.size()) break;
      if (body[i].opcode != "call" || graph_.keeps(body[i])) {
        caller_->body.push_back(body[i]);
      } else if (!expand_call(body[i], depth)) {
        return false;
      }
    }
    return true;
  }

  bool fail(const Instruction& at, const std::string& text) {
    *error_ = {at.line, 1, text};
    return false;
  }

  bool expand_call(const Instruction& call, int depth) {
    const std::string name = graph_.resolve(call.operands[1].symbol);
    auto known = module_.function_index.find(name);
    if (known == module_.function_index.end() || module_.functions[known->second].is_declaration) {
      return fail(call, "call of '" + name + "', which is defined nowhere");
    }
    if (depth >= kDepthMax || caller_->body.size() > kInstructionsMax) {
      return fail(call, "call of '" + name + "' nests too deeply");
    }
    return expand_body(call, module_.functions[known->second], depth);
  }

  bool expand_body(const Instruction& call, const Function& callee, int depth) {
    const std::string prefix = make::hidden("copy", ++copies_);
    const std::string end = make::hidden("end");
    std::map<std::string, std::string> names;
    bind(callee.params, call.operands[2].elements, &names);
    bind(callee.returns, call.operands[0].elements, &names);
    adopt_variables(callee, prefix, &names);
    const int base = static_cast<int>(caller_->registers.size());
    for (const ptx::Register& r : callee.registers)
      caller_->registers.push_back({prefix + r.name, r.type});
    for (const auto& [label, targets] : callee.branch_targets) {
      for (const std::string& t : targets) {
        const bool own = callee.labels.count(t) != 0;  // else a function
        caller_->branch_targets[prefix + label].push_back(own ? prefix + t : t);
      }
    }
    for (const auto& [label, prototype] : callee.prototypes)
      caller_->prototypes[prefix + label] = prototype;
    if (call.guard >= 0) emit_branch(call, prefix + end, !call.guard_negated);
    copy_arguments(call, callee, base);
    std::vector<Instruction> body;
    for (const Instruction& in : callee.body)
      body.push_back(rewrite(in, base, prefix, prefix + end, names));
    std::map<std::string, int> labels = callee.labels;
    labels[end] = static_cast<int>(body.size());
    const bool ok =
        expand(body, labels, depth + 1, [&](const std::string& l) { return prefix + l; });
    copy_results(call, callee, base);
    return ok;
  }

  // Parameters in memory: the callee's name means the caller's variable.
  static void bind(const std::vector<ptx::Variable>& formal, const std::vector<Operand>& actual,
                   std::map<std::string, std::string>* names) {
    for (size_t i = 0; i < formal.size() && i < actual.size(); ++i)
      (*names)[formal[i].name] = actual[i].symbol;
  }

  // Parameters of the old form are registers: copied in before, out after.
  void copy_arguments(const Instruction& call, const Function& callee, int base) {
    for (size_t i = 0; i < callee.params.size() && i < call.operands[2].elements.size(); ++i) {
      if (callee.params[i].space == ptx::Space::kReg)
        copy(call, base + register_index(callee, callee.params[i].name),
             call.operands[2].elements[i]);
    }
  }
  void copy_results(const Instruction& call, const Function& callee, int base) {
    for (size_t i = 0; i < callee.returns.size() && i < call.operands[0].elements.size(); ++i) {
      if (callee.returns[i].space != ptx::Space::kReg || call.operands[0].elements[i].reg < 0)
        continue;
      Operand from;
      from.kind = Operand::Kind::kRegister;
      from.reg = base + register_index(callee, callee.returns[i].name);
      copy(call, call.operands[0].elements[i].reg, from);
      // Lanes that have skipped the call keep what they had.
      caller_->body.back().guard = call.guard;
      caller_->body.back().guard_negated = call.guard_negated;
    }
  }
  static int register_index(const Function& f, const std::string& name) {
    for (size_t i = 0; i < f.registers.size(); ++i) {
      if (f.registers[i].name == name) return static_cast<int>(i);
    }
    return 0;
  }
  void copy(const Instruction& at, int to, const Operand& from) {
    Instruction mov;
    mov.opcode = "mov";
    mov.modifiers = {"b" + std::to_string(caller_->registers[to].type.bits)};
    mov.line = at.line;
    mov.column = at.column;
    Operand d;
    d.kind = Operand::Kind::kRegister;
    d.reg = to;
    mov.operands = {d, from};
    caller_->body.push_back(mov);
  }

  void adopt_variables(const Function& callee, const std::string& prefix,
                       std::map<std::string, std::string>* names) {
    for (const auto& [name, variable] : callee.variables) {
      if (names->count(name) != 0) continue;
      ptx::Variable copy = variable;
      copy.name = prefix + name;
      if (copy.space == ptx::Space::kLocal || copy.space == ptx::Space::kParam) {
        copy.space = ptx::Space::kLocal;
        caller_->local_bytes = (caller_->local_bytes + copy.align - 1) / copy.align * copy.align;
        copy.offset = caller_->local_bytes;
        caller_->local_bytes += static_cast<uint32_t>(copy.bytes);
      }
      (*names)[name] = copy.name;
      caller_->variables[copy.name] = copy;
    }
  }

  void emit_branch(const Instruction& call, const std::string& label, bool negated) {
    Instruction branch;
    branch.opcode = "bra";
    branch.line = call.line;
    branch.column = call.column;
    branch.guard = call.guard;
    branch.guard_negated = negated;
    Operand target;
    target.kind = Operand::Kind::kSymbol;
    target.symbol = label;
    branch.operands.push_back(target);
    caller_->body.push_back(branch);
  }

  Instruction rewrite(Instruction in, int base, const std::string& prefix, const std::string& end,
                      const std::map<std::string, std::string>& names) {
    if (in.guard >= 0) in.guard += base;
    for (Operand& o : in.operands) rewrite(&o, base, names);
    if (in.opcode == "bra") in.operands[0].symbol = prefix + in.operands[0].symbol;
    if (in.opcode == "brx") in.operands[1].symbol = prefix + in.operands[1].symbol;
    if (in.opcode == "call" && in.operands.size() > 3)
      in.operands[3].symbol = prefix + in.operands[3].symbol;
    if (in.opcode == "ret") {
      in.opcode = "bra";
      Operand target;
      target.kind = Operand::Kind::kSymbol;
      target.symbol = end;
      in.operands = {target};
      in.modifiers.clear();
    }
    return in;
  }

  void rewrite(Operand* o, int base, const std::map<std::string, std::string>& names) {
    if (o->reg >= 0) o->reg += base;
    if (o->second >= 0) o->second += base;
    auto name = names.find(o->symbol);
    if (name != names.end()) o->symbol = name->second;
    for (Operand& e : o->elements) rewrite(&e, base, names);
  }

  const ptx::Module& module_;
  const CallGraph& graph_;
  Function* caller_;
  Diagnostic* error_;
  int copies_ = 0;
};

}  // namespace

bool inline_calls(const ptx::Module& module, const CallGraph& graph, Function* function,
                  Diagnostic* error) {
  return Inliner(module, graph, function, error).run();
}

}  // namespace vgpu::softgpu
