// Walks the call graph for names of shared variables.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/shared_layout.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "softgpu/passes/call_graph.h"

namespace vgpu::softgpu {
namespace {

class Walk {
 public:
  explicit Walk(const ptx::Module& module) : module_(module) {}

  void run(const ptx::Function& kernel) {
    std::vector<const ptx::Function*> work{&kernel};
    while (!work.empty()) {
      const ptx::Function* const f = work.back();
      work.pop_back();
      if (!seen_.insert(f).second) continue;
      for (const ptx::Instruction& in : f->body) {
        if (in.opcode == "call" && (in.operands.size() < 2 || in.operands[1].symbol.empty()))
          visit_all_pointed_to(&work);
        for (const ptx::Operand& o : in.operands) visit(*f, o, &work);
      }
    }
  }

  const std::map<uint32_t, const ptx::Variable*>& found() const { return found_; }

 private:
  // A call without a name may reach every function whose address somebody takes.
  void visit_all_pointed_to(std::vector<const ptx::Function*>* work) {
    if (pointers_seen_) return;
    pointers_seen_ = true;
    for (const std::string& name : address_taken(module_)) {
      const auto function = module_.function_index.find(name);
      if (function == module_.function_index.end()) continue;
      const ptx::Function& f = module_.functions[static_cast<size_t>(function->second)];
      if (!f.is_kernel) work->push_back(&f);
    }
  }

  void visit(const ptx::Function& f, const ptx::Operand& o,
             std::vector<const ptx::Function*>* work) {
    for (const ptx::Operand& e : o.elements) visit(f, e, work);
    if (o.symbol.empty()) return;
    const auto own = f.variables.find(o.symbol);
    const auto all = module_.variables.find(o.symbol);
    if (own != f.variables.end()) return note(own->second);
    if (all != module_.variables.end()) return note(all->second);
    const auto alias = module_.aliases.find(o.symbol);
    const auto function =
        module_.function_index.find(alias == module_.aliases.end() ? o.symbol : alias->second);
    if (function != module_.function_index.end())
      work->push_back(&module_.functions[static_cast<size_t>(function->second)]);
  }

  void note(const ptx::Variable& v) {
    if (v.space == ptx::Space::kShared && !v.dynamic) found_[v.offset] = &v;
  }

  const ptx::Module& module_;
  std::set<const ptx::Function*> seen_;
  bool pointers_seen_ = false;
  std::map<uint32_t, const ptx::Variable*> found_;  // by offset in the module's numbering
};

}  // namespace

SharedLayout shared_layout(const ptx::Module& module, const ptx::Function& kernel) {
  SharedLayout layout;
  Walk walk(module);
  walk.run(kernel);
  for (const auto& [offset, variable] : walk.found()) {
    layout.bytes = (layout.bytes + variable->align - 1) / variable->align * variable->align;
    layout.place[offset] = layout.bytes;
    layout.bytes += static_cast<uint32_t>(variable->bytes);
  }
  return layout;
}

}  // namespace vgpu::softgpu
