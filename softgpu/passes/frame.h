// What a function that is called needs on its lane's stack, and what calls leave alive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {

// Results, then arguments, then local variables. Functions of one shape have the first two at the
// same places, so that indirect calls need not know whom they call.
struct Frame {
  std::map<std::string, uint32_t> places;      // offsets by name
  std::vector<ptx::Variable> returns, params;  // with their offsets here
  // Those of the old form, which are registers: register number and offset.
  std::vector<std::pair<int, uint32_t>> register_params, register_returns;
  uint32_t bytes = 0;
};
Frame frame_of(const ptx::Function& f);

// Per call in f.body: the registers that are needed after it.
std::map<size_t, BitSet> live_after_calls(const ptx::Function& f);

// brx.idx becomes a switch over 0, 1, …
void lower_branch_tables(ptx::Function* f);

}  // namespace vgpu::softgpu
