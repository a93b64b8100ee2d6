// Who may call whom in a module, and whose address is taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu {

// Functions that the runtime provides; their calls stay calls.
bool is_service(const std::string& name);

// Functions whose address is a value somewhere: in initialisers or operands. Sorted.
std::vector<std::string> address_taken(const ptx::Module& module);

// Refers to the module, which must outlive it.
class CallGraph {
 public:
  explicit CallGraph(const ptx::Module& module);

  // The function that an alias stands for; other names as they are.
  std::string resolve(const std::string& name) const;
  const ptx::Function* find(const std::string& name) const;
  // Whether a call instruction is not inlined: services, indirect and recursive calls, and calls of
  // large functions that many places call.
  bool keeps(const ptx::Instruction& call) const;
  // Functions that a call in `caller` may enter. Empty for services and undefined names.
  std::vector<std::string> targets(const ptx::Function& caller, const ptx::Instruction& call) const;
  // Whether a call of `from` may enter `to`, now or later.
  bool reaches(const std::string& from, const std::string& to) const;

 private:
  void reach(const std::string& from);

  const ptx::Module& module_;
  std::vector<std::string> address_taken_;
  std::map<std::string, std::set<std::string>> callees_, reached_;
  std::map<std::string, int> sites_;
};

}  // namespace vgpu::softgpu
