// Where registers live: in LLVM's values, or, in kernels with very many places to go on at, in
// memory. SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/CFG.h>
#include <llvm/IR/InlineAsm.h>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {
namespace {

constexpr size_t kMergesMax = 20'000;
constexpr uint32_t kNeverResumed = 0xfffffffeu;

}  // namespace

// One place of the function jumps to every block, and every block to it: as values, each register
// would be merged there from all blocks and again in all blocks, and the code would be many times
// as large as the kernel. Registers whose address is taken stay in memory; those that are used in
// one block only need no merging.
void Emitter::keep_in_memory_when_wide() {
  size_t ways = 0;
  for (llvm::BasicBlock* block : {dispatch_wide_, settle_}) {
    if (block != nullptr) ways += llvm::pred_size(block);
  }
  std::vector<llvm::AllocaInst*> merged;
  for (size_t r = 0; r < registers_.size(); ++r) {
    for (const BitSet& live : kernel_.live_in) {
      if (!live.test(r)) continue;
      merged.push_back(registers_[r]);
      break;
    }
  }
  merged.insert(merged.end(), pending_.begin(), pending_.end());
  if (!parking_.empty()) merged.insert(merged.end(), parked_.begin(), parked_.end());
  if (ways * merged.size() < kMergesMax) return;
  auto* nowhere = llvm::BasicBlock::Create(context_, "nowhere", function_);
  entry_switch_->addCase(b_.getInt32(kNeverResumed), nowhere);
  b_.SetInsertPoint(nowhere);
  auto* type =
      llvm::FunctionType::get(b_.getVoidTy(), {llvm::PointerType::get(context_, 0)}, false);
  auto* taken = llvm::InlineAsm::get(type, "", "r,~{memory}", true);
  for (llvm::AllocaInst* slot : merged) b_.CreateCall(taken, {slot});
  b_.CreateRet(i32(kWarpFinished));
}

}  // namespace vgpu::softgpu
