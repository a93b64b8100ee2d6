// Puts modules together.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/ptx/link.h"

#include <algorithm>
#include <set>
#include <utility>

#include "softgpu/passes/call_graph.h"

namespace vgpu::softgpu::ptx {
namespace {

using Names = std::map<std::string, std::string>;

void rename(std::string* name, const Names& names) {
  const auto found = names.find(*name);
  if (found != names.end()) *name = found->second;
}

void rename(Operand* o, const Names& names) {
  if (!o->symbol.empty()) rename(&o->symbol, names);
  for (Operand& e : o->elements) rename(&e, names);
}

// Names of the function's own hide those of the module.
void rename_in(Function* f, Names names) {
  for (const auto& [own, variable] : f->variables) names.erase(own);
  for (const auto& [own, index] : f->labels) names.erase(own);
  for (Instruction& in : f->body) {
    for (Operand& o : in.operands) rename(&o, names);
  }
  for (auto& [label, targets] : f->branch_targets) {
    for (std::string& target : targets) rename(&target, names);
  }
}

class Linker {
 public:
  Linker(Module* out, std::string* error) : out_(out), error_(error) {}

  bool add(Module module) {
    out_->version = std::max(out_->version, module.version);
    out_->target = std::max(out_->target, module.target);
    keep_apart(&module);
    for (auto& [name, linkage] : module.linkage) {
      const auto [known, is_new] = out_->linkage.emplace(name, linkage);
      if (!is_new && linkage != Linkage::kExternal) known->second = linkage;
    }
    out_->aliases.insert(module.aliases.begin(), module.aliases.end());
    for (Function& f : module.functions) {
      if (!add_function(std::move(f), module.linkage)) return false;
    }
    for (GlobalVar& global : module.globals) {
      if (!add_global(std::move(global), module)) return false;
    }
    for (auto& [name, variable] : module.variables) {
      if (variable.space == Space::kShared && !add_shared(variable, module.linkage.at(name)))
        return false;
    }
    return true;
  }

 private:
  // Compilers number their names in the same way, so what is free has to be looked for.
  std::string unused_name(const std::string& name, const Module& module) {
    for (;;) {
      std::string made = name + "$" + std::to_string(++count_);
      if (out_->linkage.count(made) == 0 && module.linkage.count(made) == 0) return made;
    }
  }

  // A name that only this module sees gets another one when the program has it already.
  void keep_apart(Module* module) {
    Names names;
    for (const auto& [name, linkage] : module->linkage) {
      const auto index = module->function_index.find(name);
      const bool is_kernel = index != module->function_index.end() &&
                             module->functions[static_cast<size_t>(index->second)].is_kernel;
      if (linkage == Linkage::kLocal && !is_kernel && out_->linkage.count(name) != 0)
        names[name] = unused_name(name, *module);
    }
    if (names.empty()) return;
    for (Function& f : module->functions) {
      rename(&f.name, names);
      rename_in(&f, names);
    }
    for (GlobalVar& global : module->globals) {
      rename(&global.name, names);
      for (GlobalVar::Reloc& reloc : global.relocs) rename(&reloc.symbol, names);
    }
    std::map<std::string, Variable> variables;
    for (auto& [name, variable] : module->variables) {
      rename(&variable.name, names);
      variables.emplace(variable.name, variable);
    }
    module->variables = std::move(variables);
    Names aliases;
    for (auto& [name, meant] : module->aliases) {
      std::string from = name, to = meant;
      rename(&from, names);
      rename(&to, names);
      aliases.emplace(from, to);
    }
    module->aliases = std::move(aliases);
    std::map<std::string, Linkage> linkage;
    for (const auto& [name, kind] : module->linkage) {
      std::string renamed = name;
      rename(&renamed, names);
      linkage.emplace(renamed, kind);
    }
    module->linkage = std::move(linkage);
  }

  // The window of the program is numbered afresh: what several modules declare is in it once. Each
  // module has at most kModuleSharedBytesMax, and a program that has ever more is refused.
  void place(Variable* v) {
    if (out_->shared_bytes > kModuleSharedBytesMax) return;
    out_->shared_bytes = (out_->shared_bytes + v->align - 1) / v->align * v->align;
    v->offset = out_->shared_bytes;
    out_->shared_bytes += static_cast<uint32_t>(v->bytes);
  }

  void place_own(Function* f) {
    for (auto& [name, v] : f->variables) {
      if (v.space == Space::kShared && !v.dynamic) place(&v);
    }
  }

  bool add_shared(const Variable& variable, Linkage linkage) {
    const auto [known, is_new] = out_->variables.emplace(variable.name, variable);
    Variable& there = known->second;
    if (variable.dynamic || variable.external) return true;
    if (!is_new && !there.external)
      return linkage == Linkage::kWeak || linkage == Linkage::kCommon ||
             defined_twice(variable.name);
    there = variable;
    place(&there);
    return true;
  }

  bool add_function(Function f, const std::map<std::string, Linkage>& linkage) {
    const auto known = out_->function_index.find(f.name);
    if (known == out_->function_index.end()) {
      place_own(&f);
      out_->function_index[f.name] = static_cast<int>(out_->functions.size());
      out_->functions.push_back(std::move(f));
      return true;
    }
    Function& there = out_->functions[static_cast<size_t>(known->second)];
    if (f.is_declaration) return true;
    if (there.is_declaration) {
      place_own(&f);
      there = std::move(f);
      return true;
    }
    return linkage.at(f.name) == Linkage::kWeak || defined_twice(f.name);
  }

  bool add_global(GlobalVar global, const Module& from) {
    const auto same = [&](const GlobalVar& other) { return other.name == global.name; };
    const auto there = std::find_if(out_->globals.begin(), out_->globals.end(), same);
    if (there == out_->globals.end()) {
      out_->variables[global.name] = from.variables.at(global.name);
      out_->globals.push_back(std::move(global));
      return true;
    }
    if (global.external) return true;
    const Linkage linkage = from.linkage.at(global.name);
    if (there->external || (linkage == Linkage::kCommon && global.bytes > there->bytes)) {
      out_->variables[global.name] = from.variables.at(global.name);
      *there = std::move(global);
      return true;
    }
    return linkage == Linkage::kWeak || linkage == Linkage::kCommon || defined_twice(global.name);
  }

  bool defined_twice(const std::string& name) {
    *error_ = "multiple definition of '" + name + "'";
    return false;
  }

  Module* out_;
  std::string* error_;
  int count_ = 0;
};

}  // namespace

std::vector<std::string> undefined_names(const Module& module) {
  std::set<std::string> missing;
  const auto check = [&](const std::string& name) {
    const auto alias = module.aliases.find(name);
    const std::string& meant = alias == module.aliases.end() ? name : alias->second;
    const auto linkage = module.linkage.find(meant);
    if (linkage != module.linkage.end() && linkage->second == Linkage::kExternal &&
        !is_service(meant)) {
      const auto v = module.variables.find(meant);
      if (v == module.variables.end() || v->second.space != Space::kShared || v->second.external)
        missing.insert(meant);
    }
  };
  const auto visit = [&](const auto& self, const Operand& o) -> void {
    if (!o.symbol.empty()) check(o.symbol);
    for (const Operand& e : o.elements) self(self, e);
  };
  for (const Function& f : module.functions) {
    for (const Instruction& in : f.body) {
      for (const Operand& o : in.operands) visit(visit, o);
    }
  }
  for (const GlobalVar& global : module.globals) {
    for (const GlobalVar::Reloc& reloc : global.relocs) check(reloc.symbol);
  }
  return {missing.begin(), missing.end()};
}

bool link_modules(std::vector<Module> modules, Module* out, std::string* error) {
  Linker linker(out, error);
  for (Module& module : modules) {
    if (!linker.add(std::move(module))) return false;
  }
  const std::vector<std::string> missing = undefined_names(*out);
  if (out->shared_bytes > kModuleSharedBytesMax) {
    *error = "more than 64 MiB of shared variables";
    return false;
  }
  if (missing.empty()) return true;
  *error = "undefined reference to '" + missing.front() + "'";
  return false;
}

}  // namespace vgpu::softgpu::ptx
