// cp.async.bulk.tensor in its tiled modes, done at once, and tensormap.replace.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/async_op.h"
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/tensor_op.h"

namespace vgpu::softgpu {
namespace {

bool tensor_op(const ptx::Instruction& in, TensorOp* op) {
  static const struct {
    const char* name;
    TensorOp op;
  } kNames[] = {{"add", TensorOp::kAdd}, {"min", TensorOp::kMin}, {"max", TensorOp::kMax},
                {"inc", TensorOp::kInc}, {"dec", TensorOp::kDec}, {"and", TensorOp::kAnd},
                {"or", TensorOp::kOr},   {"xor", TensorOp::kXor}};
  if (!in.has("reduce")) {
    *op = in.has("mbarrier::complete_tx::bytes") ? TensorOp::kLoad : TensorOp::kStore;
    return true;
  }
  for (const auto& row : kNames) {
    if (in.has(row.name)) return *op = row.op, true;
  }
  return false;
}

unsigned dimensions_of(const ptx::Instruction& in) {
  static const char* const kNames[] = {"1d", "2d", "3d", "4d", "5d"};
  for (unsigned d = 0; d < 5; ++d) {
    if (in.has(kNames[d])) return d + 1;
  }
  return 0;
}

bool tensor_field(const ptx::Instruction& in, TensorField* field, bool* has_place) {
  static const struct {
    const char* name;
    TensorField field;
    bool has_place;
  } kNames[] = {{"global_address", TensorField::kAddress, false},
                {"rank", TensorField::kRank, false},
                {"box_dim", TensorField::kBox, true},
                {"global_dim", TensorField::kSize, true},
                {"global_stride", TensorField::kStride, true},
                {"element_stride", TensorField::kStep, true},
                {"fill_mode", TensorField::kFill, false},
                {"swizzle_mode", TensorField::kSwizzle, false}};
  for (const auto& row : kNames) {
    if (!in.has(row.name)) continue;
    *field = row.field;
    *has_place = row.has_place;
    return true;
  }
  return false;
}

}  // namespace

// cp.async.bulk.tensor.Nd.shared.global… [dst], [map, {coordinates}], [mbarrier]
// cp[.reduce].async.bulk.tensor.Nd.global.shared… [map, {coordinates}], [src]
void Emitter::tensor_copy(const Instruction& in) {
  if (in.has("prefetch")) return;
  const unsigned dimensions = dimensions_of(in);
  TensorOp op;
  for (const std::string& m : in.modifiers) {
    if (m.rfind("im2col", 0) == 0) return unsupported(in, "im2col");
    if (m == "tile::gather4" || m == "tile::scatter4" || m == "multicast::cluster" ||
        m == "cta_group::2")
      return unsupported(in, m);
  }
  if (dimensions == 0 || !tensor_op(in, &op)) return unsupported(in);
  const bool loads = op == TensorOp::kLoad;
  if (in.operands.size() < (loads ? 3u : 2u)) return unsupported(in);
  const Operand& map = in.operands[loads ? 1 : 0];
  const Operand& shared = in.operands[loads ? 0 : 1];
  if (map.elements.size() != 1 || map.elements[0].elements.size() != dimensions)
    return unsupported(in, "its coordinates");
  llvm::Type* row = vector_of(int_type(32));
  auto* coordinates = stack_slot(llvm::ArrayType::get(row, 5));
  for (unsigned d = 0; d < dimensions; ++d) {
    b_.CreateStore(
        splat(get(map.elements[0].elements[d], {'s', 32})),
        b_.CreateConstInBoundsGEP2_32(coordinates->getAllocatedType(), coordinates, 0, d));
  }
  Operand base = map;
  base.elements.clear();
  auto* bytes = stack_slot(row);
  call_helper("sg_tensor_copy", b_.getVoidTy(),
              {warp_, i32(static_cast<uint32_t>(op)), i32(dimensions), i32(variant_.lanes), mask_,
               place_in(base, false), coordinates, place_in(shared, true), bytes});
  if (!loads) return;
  mbarrier_call(static_cast<uint32_t>(MbarrierOp::kComplete), place_in(in.operands[2], true),
                b_.CreateLoad(row, bytes));
}

// tensormap.replace.tile.field.space.b1024.type [map], {place,} value;
// tensormap.cp_fenceproxy.… [dst], [src], 128
void Emitter::tensor_map(const Instruction& in) {
  const bool shared = in.in_shared();
  if (in.has("cp_fenceproxy")) {
    if (in.operands.size() != 3) return unsupported(in);
    call_helper(
        "sg_copy_bulk", b_.getVoidTy(),
        {place_in(in.operands[0], false), place_in(in.operands[1], true), mask_, spill(i32(128))});
    return;
  }
  TensorField field;
  bool has_place = false;
  if (!in.has("replace") || !in.has("tile") || !tensor_field(in, &field, &has_place) ||
      in.operands.size() != (has_place ? 3u : 2u))
    return unsupported(in);
  uint32_t place = 0;
  if (has_place) {
    if (in.operands[1].kind != Operand::Kind::kInteger) return unsupported(in);
    place = static_cast<uint32_t>(in.operands[1].integer);
  }
  const bool wide = field == TensorField::kAddress || field == TensorField::kStride;
  Value* value = get(in.operands.back(), {'b', static_cast<uint8_t>(wide ? 64 : 32)});
  call_helper("sg_tensor_map", b_.getVoidTy(),
              {i32(static_cast<uint32_t>(field)), i32(place), mask_,
               place_in(in.operands[0], shared), spill(as(value, int_type(64)))});
}

}  // namespace vgpu::softgpu
