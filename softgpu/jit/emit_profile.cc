// Calls that count, in kernels compiled for a profile.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// Every access to memory that a kernel shares or owns passes here before it is made.
void Emitter::watch_access(const Instruction& in, const Address& a, uint32_t bytes) {
  check_alignment(a, bytes);
  if (!variant_.profile || in.has("param") || in.has("const")) return;
  call_helper("sg_profile_access", b_.getVoidTy(), {warp_, spill(lanes_of(a)), mask_, i32(bytes)});
}

void Emitter::watch_block(int b) {
  if (!variant_.profile) return;
  call_helper("sg_profile_block", b_.getVoidTy(), {warp_, i32(static_cast<uint64_t>(b)), mask_});
}

void Emitter::watch_branch(Value* taken, Value* stays) {
  if (!variant_.profile) return;
  call_helper("sg_profile_branch", b_.getVoidTy(), {warp_, taken, stays});
}

}  // namespace vgpu::softgpu
