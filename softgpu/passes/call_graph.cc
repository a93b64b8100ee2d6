// Who may call whom in a module, and whose address is taken.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/call_graph.h"

#include "softgpu/passes/device_call.h"

namespace vgpu::softgpu {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;
using ptx::Variable;

// Above these a function called in several places stays one function: code would grow too much.
constexpr size_t kLargeBody = 2000;
constexpr int kManySites = 3;

bool same_shape(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].bytes != b[i].bytes) return false;
  }
  return true;
}

void note_symbols(const ptx::Module& module, const Operand& o, std::set<std::string>* names) {
  if (!o.symbol.empty() && module.variables.count(o.symbol) == 0) {
    const auto alias = module.aliases.find(o.symbol);
    const std::string& name = alias == module.aliases.end() ? o.symbol : alias->second;
    if (module.function_index.count(name) != 0) names->insert(name);
  }
  for (const Operand& e : o.elements) note_symbols(module, e, names);
}

}  // namespace

bool is_service(const std::string& name) {
  return name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail" ||
         name == "cudaGraphSetConditional" || device_call(name).has_value();
}

std::vector<std::string> address_taken(const ptx::Module& module) {
  std::set<std::string> names;
  for (const GlobalVar& global : module.globals) {
    for (const GlobalVar::Reloc& reloc : global.relocs) {
      Operand o;
      o.symbol = reloc.symbol;
      note_symbols(module, o, &names);
    }
  }
  for (const Function& f : module.functions) {
    for (const Instruction& in : f.body) {
      for (size_t i = 0; i < in.operands.size(); ++i) {
        const bool is_target = in.opcode == "call" && i == 1;
        if (!is_target) note_symbols(module, in.operands[i], &names);
      }
    }
    for (const auto& [label, targets] : f.branch_targets) {
      for (const std::string& t : targets) {
        if (module.function_index.count(t) != 0 && f.labels.count(t) == 0) names.insert(t);
      }
    }
  }
  return {names.begin(), names.end()};
}

CallGraph::CallGraph(const ptx::Module& module)
    : module_(module), address_taken_(softgpu::address_taken(module)) {
  for (const Function& f : module.functions) {
    for (const Instruction& in : f.body) {
      if (in.opcode != "call") continue;
      for (const std::string& t : targets(f, in)) {
        callees_[f.name].insert(t);
        if (in.operands[1].kind == Operand::Kind::kSymbol) ++sites_[t];
      }
    }
  }
  for (const Function& f : module.functions) reach(f.name);
}

void CallGraph::reach(const std::string& from) {
  std::vector<std::string> work{from};
  std::set<std::string>& seen = reached_[from];
  while (!work.empty()) {
    const auto next = callees_.find(work.back());
    work.pop_back();
    if (next == callees_.end()) continue;
    for (const std::string& t : next->second) {
      if (seen.insert(t).second) work.push_back(t);
    }
  }
}

std::string CallGraph::resolve(const std::string& name) const {
  const auto alias = module_.aliases.find(name);
  return alias == module_.aliases.end() ? name : alias->second;
}

const Function* CallGraph::find(const std::string& name) const {
  const auto known = module_.function_index.find(name);
  if (known == module_.function_index.end()) return nullptr;
  const Function& f = module_.functions[static_cast<size_t>(known->second)];
  return f.is_declaration ? nullptr : &f;
}

bool CallGraph::keeps(const Instruction& call) const {
  if (call.operands[1].kind != Operand::Kind::kSymbol) return true;
  const std::string name = resolve(call.operands[1].symbol);
  if (is_service(name) || reaches(name, name)) return true;
  const Function* const f = find(name);
  const auto sites = sites_.find(name);
  return f != nullptr && f->body.size() > kLargeBody && sites != sites_.end() &&
         sites->second >= kManySites;
}

std::vector<std::string> CallGraph::targets(const Function& caller, const Instruction& call) const {
  if (call.operands[1].kind == Operand::Kind::kSymbol) {
    const std::string name = resolve(call.operands[1].symbol);
    if (is_service(name) || find(name) == nullptr) return {};
    return {name};
  }
  const std::string label = call.operands.size() > 3 ? call.operands[3].symbol : "";
  const auto listed = caller.branch_targets.find(label);
  if (listed != caller.branch_targets.end()) return listed->second;
  const auto prototype = caller.prototypes.find(label);
  std::vector<std::string> found;
  for (const std::string& name : address_taken_) {
    const Function* const f = find(name);
    if (f == nullptr || f->is_kernel) continue;
    if (prototype == caller.prototypes.end() ||
        (same_shape(f->params, prototype->second.params) &&
         same_shape(f->returns, prototype->second.returns))) {
      found.push_back(name);
    }
  }
  return found;
}

bool CallGraph::reaches(const std::string& from, const std::string& to) const {
  const auto seen = reached_.find(from);
  return seen != reached_.end() && seen->second.count(to) != 0;
}

}  // namespace vgpu::softgpu
