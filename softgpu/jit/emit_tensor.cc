// cp.async.bulk.tensor, done at once, and tensormap.replace.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "softgpu/exec/tensor_map.h"
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/tensor_op.h"

namespace vgpu::softgpu {
namespace {

using ptx::Operand;

Operand integer_operand(int64_t value) {
  Operand o;
  o.kind = Operand::Kind::kInteger;
  o.integer = value;
  return o;
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

// For each of `list` a value of all lanes, as an array of arrays.
Emitter::Value* Emitter::lane_words(const std::vector<Operand>& list, const Type& t) {
  auto* rows = stack_slot(llvm::ArrayType::get(vector_of(int_type(32)), kTensorRankMax));
  for (size_t i = 0; i < list.size() && i < kTensorRankMax; ++i) {
    Value* v = as(get(list[i], t), int_type(32));
    b_.CreateStore(splat(v), b_.CreateConstInBoundsGEP2_32(rows->getAllocatedType(), rows, 0,
                                                           static_cast<unsigned>(i)));
  }
  return rows;
}

// cp.async.bulk.tensor.Nd.shared.global… [dst], [map, {coordinates}], [mbarrier][, {offsets}]
//   [, blocks][, policy]
// cp[.reduce].async.bulk.tensor.Nd.global.shared… [map, {coordinates}], [src][, policy]
void Emitter::tensor_copy(const Instruction& in) {
  if (in.has("prefetch")) return;
  const unsigned dimensions = dimensions_of(in);
  TensorAccess access = TensorAccess::kBox;
  for (const std::string& m : in.modifiers) {
    if (m == "im2col" || m == "im2col_no_offs")
      access = TensorAccess::kPixels;
    else if (m == "tile::gather4")
      access = TensorAccess::kRows;
    else if (m.rfind("im2col", 0) == 0 || m == "tile::scatter4" || m == "cta_group::2")
      return unsupported(in, m);
  }
  const bool loads = in.has("mbarrier::complete_tx::bytes");
  TensorOp op = loads ? TensorOp::kLoad : TensorOp::kStore;
  if ((access == TensorAccess::kRows && dimensions != 2) ||
      (in.has("multicast::cluster") && !loads))
    return unsupported(in, "it has none of these");
  if (dimensions == 0 || (in.has("reduce") && !bulk_reduction(in, &op))) return unsupported(in);
  const bool offsets = access == TensorAccess::kPixels && loads;
  const bool multicasts = in.has("multicast::cluster");
  const size_t least = loads ? 3u + (offsets ? 1 : 0) + (multicasts ? 1 : 0) : 2u;
  if (in.operands.size() < least) return unsupported(in);
  const Operand& map = in.operands[loads ? 1 : 0];
  const Operand& shared = in.operands[loads ? 0 : 1];
  const size_t coordinates = access == TensorAccess::kRows ? 1 + kGatheredRows : dimensions;
  if (map.elements.size() != 1 || map.elements[0].elements.size() != coordinates ||
      (access == TensorAccess::kPixels && dimensions < 3) ||
      (offsets && in.operands[3].elements.size() != dimensions - 2))
    return unsupported(in, "its coordinates");
  Operand base = map;
  base.elements.clear();
  Value* const nothing = llvm::ConstantPointerNull::get(llvm::PointerType::get(context_, 0));
  const std::vector<Operand> no_offsets(dimensions > 2 ? dimensions - 2 : 0, integer_operand(0));
  Value* const fields[] = {
      i32(static_cast<uint32_t>(op)),
      i32(static_cast<uint32_t>(access)),
      i32(dimensions),
      i32(variant_.lanes),
      place_in(base, false),
      lane_words(map.elements[0].elements, {'s', 32}),
      lane_words(offsets ? in.operands[3].elements : no_offsets, {'u', 16}),
      place_in(shared, true),
      loads ? place_in(in.operands[2], true) : nothing,
      multicasts ? lane_words({in.operands[offsets ? 4 : 3]}, {'u', 16}) : nothing};
  llvm::Type* const word = int_type(32);
  llvm::Type* const pointer = nothing->getType();
  auto* type = llvm::StructType::get(word, word, word, word, pointer, pointer, pointer, pointer,
                                     pointer, pointer);
  auto* copy = stack_slot(type);
  for (unsigned i = 0; i < std::size(fields); ++i)
    b_.CreateStore(fields[i], b_.CreateStructGEP(type, copy, i));
  call_helper("sg_tensor_copy", b_.getVoidTy(), {warp_, mask_, copy});
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
