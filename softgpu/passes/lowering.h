// How calls become jumps: of lower_calls.cc and lower_call_site.cc, and only for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "softgpu/passes/call_graph.h"
#include "softgpu/passes/frame.h"
#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {

// One kernel. Makes the merged body in the kernel's function.
class Lowering {
 public:
  Lowering(const CallGraph& graph, Kernel* kernel, Diagnostic* error)
      : graph_(graph), kernel_(kernel), out_(&kernel->function), error_(error) {}

  bool run();

 private:
  using Function = ptx::Function;
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;
  using Type = ptx::Type;

  struct Part {  // one function's code in the merged body
    std::string name, prefix;
    Function text;  // after inlining
    Frame frame;
    std::vector<Instruction> body;
    std::multimap<size_t, std::string> labels;  // by place in `body`
    int base = 0;                               // number of its first register
    int frame_pointer = -1, frame_offset = -1, return_id = -1;
    std::set<int> sites;  // return ids that may lead here
    size_t return_switch = 0;
  };
  struct Callee {
    std::vector<Part*> parts;
    const Frame* frame = nullptr;  // the same places for arguments and results in all of them
    uint32_t bytes = 0;            // of the largest
  };

  int fresh(const std::string& name, const Type& type);
  void put(const std::string& spelling, std::vector<Operand> operands, const Instruction& like);
  void put_framed(Instruction in);
  void rebase(Operand* o) const;
  void replace_frame_symbols(Operand* o, const Instruction& like);
  Part* need(const std::string& name, const Instruction& call);
  bool lower_function(Part* part);
  bool lower_body(Part* part, const Function& f, const std::map<size_t, BitSet>& live);
  bool lower_instruction(const Function& f, const Instruction& in, const BitSet* live);
  bool lower_call(const Function& f, const Instruction& call, const BitSet* live);
  bool find_callee(const Function& f, const Instruction& call, Callee* callee);
  void jump(const Instruction& call, const Callee& callee, int id);
  void copy_in(const Instruction& call, const Frame& frame);
  void copy_out(const Instruction& call, const Frame& frame, int from);
  void copy_bytes(const Operand& to, const Operand& from, const ptx::Variable& v,
                  const Instruction& like);
  std::vector<std::pair<int, uint32_t>> spilled(const Callee& callee, const BitSet* live,
                                                uint32_t* bytes) const;
  void spill(const std::vector<std::pair<int, uint32_t>>& slots, const Instruction& like);
  void fill(const std::vector<std::pair<int, uint32_t>>& slots, const Instruction& like);
  void lower_alloca(const Instruction& in);
  void finish_returns();
  void assemble();
  void note_depth(uint32_t bytes, const Callee& callee);
  uint32_t depth_of(const Part* part, std::set<const Part*>* path);

  const CallGraph& graph_;
  Kernel* kernel_;
  Function* out_;
  Diagnostic* error_;
  std::vector<std::unique_ptr<Part>> parts_;  // the kernel's own is the first
  Part* now_ = nullptr;
  int sp_ = -1, return_register_ = -1, site_count_ = 0, labels_ = 0;
  // Edges of the call tree with what a caller's calls need beside the callee's frame.
  std::map<const Part*, std::vector<std::pair<uint32_t, const Part*>>> deeper_;
};

}  // namespace vgpu::softgpu
