// Blocks of a cluster: where they are, each other's shared memory, and what tells the other side's
// mbarrier that it is done. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/async_op.h"
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// Of code for launches with clusters: a word of the block's place, which never changes.
Emitter::Value* Emitter::cluster_word(size_t offset) {
  auto* never_changes = llvm::MDNode::get(context_, {});
  auto* place = llvm::cast<llvm::LoadInst>(
      context_field(offsetof(WarpContext, cluster), llvm::PointerType::get(context_, 0)));
  place->setMetadata(llvm::LLVMContext::MD_invariant_load, never_changes);
  auto* word = b_.CreateAlignedLoad(
      int_type(32), b_.CreateConstInBoundsGEP1_64(int_type(8), place, offset), llvm::Align(4));
  word->setMetadata(llvm::LLVMContext::MD_invariant_load, never_changes);
  return word;
}

// nullptr for names of other things. A block that was launched without clusters is one by itself.
Emitter::Value* Emitter::cluster_special(const std::string& name) {
  static const std::map<std::string, size_t> kAxes = {
      {"%clusterid", offsetof(ClusterPlace, cluster)},
      {"%nclusterid", offsetof(ClusterPlace, clusters)},
      {"%cluster_ctaid", offsetof(ClusterPlace, index)},
      {"%cluster_nctaid", offsetof(ClusterPlace, size)}};
  const bool clustered = variant_.clustered;
  if (name == "%is_explicit_cluster") return i32(clustered ? 1 : 0);
  if (name == "%cluster_ctarank")
    return clustered ? cluster_word(offsetof(ClusterPlace, rank)) : i32(0);
  if (name == "%cluster_nctarank")
    return clustered ? cluster_word(offsetof(ClusterPlace, blocks)) : i32(1);
  const size_t dot = name.find('.');
  const auto axes = dot == std::string::npos ? kAxes.end() : kAxes.find(name.substr(0, dot));
  if (axes == kAxes.end()) return nullptr;
  const std::string axis = name.substr(dot);
  if (clustered) return cluster_word(axes->second + (axis == ".y" ? 4 : axis == ".z" ? 8 : 0));
  if (name.rfind("%clusterid", 0) == 0) return special("%ctaid" + axis);
  if (name.rfind("%nclusterid", 0) == 0) return special("%nctaid" + axis);
  return i32(name.rfind("%cluster_ctaid", 0) == 0 ? 0 : 1);
}

// Where the block's own window begins in the memory that shared addresses are places of.
Emitter::Value* Emitter::own_window() {
  Value* memory = context_field(offsetof(WarpContext, shared), int_type(64));
  if (!variant_.clustered) return memory;
  Value* window = cluster_word(offsetof(ClusterPlace, window));
  return b_.CreateAdd(memory, b_.CreateZExt(window, int_type(64)));
}

// mapa{.shared::cluster} d, a, rank and getctarank{.shared::cluster} d, a: ranks are the high bits
// of shared addresses. Bits that no rank of any cluster has are left out: where there is no such
// block, the address is a fault.
void Emitter::map_to_block(const Instruction& in) {
  const bool maps = in.opcode == "mapa";
  const Type t{'u', static_cast<uint8_t>(in.has("u64") ? 64 : 32)};
  const Type from{'u', static_cast<uint8_t>(in.in_shared() ? t.bits : 64)};
  if (!variant_.clustered) return set(in.operands[0], maps ? get(in.operands[1], t) : i32(0));
  Value* a = get(in.operands[1], in.in_shared() && !maps ? Type{'u', 32} : from);
  Value* memory = constant(a->getType()->getScalarType(), 0);
  if (!in.in_shared()) memory = context_field(offsetof(WarpContext, shared), int_type(64));
  unify(&a, &memory);
  Value* place = b_.CreateSub(a, memory);
  const auto number = [&](uint64_t n) { return llvm::ConstantInt::get(place->getType(), n); };
  if (!maps) return set(in.operands[0], b_.CreateLShr(place, number(kClusterWindowBits)));
  Value* rank = b_.CreateAnd(get(in.operands[2], {'u', 32}), uint64_t{kRanks - 1});
  rank = as(rank, place->getType()->getScalarType());
  Value* below = b_.CreateAnd(place, number(kClusterWindow - 1));
  unify(&rank, &below, &memory);
  Value* high = b_.CreateShl(rank, llvm::ConstantInt::get(rank->getType(), kClusterWindowBits));
  set(in.operands[0], b_.CreateAdd(memory, b_.CreateOr(high, below)));
}

// The instruction without what makes it asynchronous.
Emitter::Instruction Emitter::at_once(const Instruction& in) {
  Instruction plain = in;
  std::erase(plain.modifiers, "async");
  std::erase(plain.modifiers, "mbarrier::complete_tx::bytes");
  return plain;
}

// st.async.….mbarrier::complete_tx::bytes{.vec}.type [a], b, [mbarrier], and red.async.…: done at
// once, which PTX allows; the mbarrier is then told of the bytes.
void Emitter::count_bytes(const Instruction& in, size_t mbarrier_at) {
  if (!in.has("mbarrier::complete_tx::bytes")) return;
  Type t;
  if (in.operands.size() <= mbarrier_at || !in.type_from_end(0, &t)) return unsupported(in);
  const size_t parts = std::max<size_t>(in.operands[mbarrier_at - 1].elements.size(), 1);
  mbarrier_call(static_cast<uint32_t>(MbarrierOp::kComplete),
                place_in(in.operands[mbarrier_at], true), i64(parts * t.bytes()));
}

// cp.async.bulk.….multicast::cluster [dst], [src], size, [mbarrier], blocks: to the same place in
// the window of each block that a bit stands for, whose own mbarrier is told.
void Emitter::multicast(const Instruction& in, Value* to, Value* from, Value* size) {
  if (in.operands.size() < 5 || !in.has("mbarrier::complete_tx::bytes")) return unsupported(in);
  call_helper("sg_copy_multicast", b_.getVoidTy(),
              {warp_, to, from, mask_, spill(size), place_in(in.operands[3], true),
               spill(as(get(in.operands[4], {'b', 16}), int_type(32)))});
}

}  // namespace vgpu::softgpu
