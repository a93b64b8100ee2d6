// Tensor operations: fragments go to the runtime as arrays of 32 lanes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "softgpu/jit/emitter.h"
#include "softgpu/jit/fragment.h"

namespace vgpu::softgpu {
namespace {

// ".m16n8k16" among the modifiers.
bool shape_of(const ptx::Instruction& in, MatrixShape* shape) {
  for (const std::string& m : in.modifiers) {
    if (std::sscanf(m.c_str(), "m%un%uk%u", &shape->rows, &shape->columns, &shape->k) == 3)
      return true;
  }
  return false;
}

std::vector<MatrixType> types_of(const ptx::Instruction& in) {
  std::vector<MatrixType> types;
  for (const std::string& m : in.modifiers) {
    const MatrixType t = matrix_type(m);
    if (t != MatrixType::kNone) types.push_back(t);
  }
  return types;
}

std::vector<ptx::Operand> elements_of(const ptx::Operand& o) {
  return o.kind == ptx::Operand::Kind::kVector ? o.elements : std::vector<ptx::Operand>{o};
}

bool known_wmma_shape(const MatrixShape& s) {
  static constexpr MatrixShape kShapes[] = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}, {16, 16, 8},
                                            {8, 8, 4},    {8, 8, 32},  {8, 8, 128}};
  return std::any_of(std::begin(kShapes), std::end(kShapes), [&s](const MatrixShape& each) {
    return each.rows == s.rows && each.columns == s.columns && each.k == s.k;
  });
}

// Whether the operands of wmma.mma d, a, b, c have all elements. They may hold some twice.
bool enough_registers(const ptx::Instruction& in, const MatrixShape& s, MatrixType a, MatrixType b,
                      MatrixType c, MatrixType d) {
  const uint32_t counts[4] = {result_fragment(s.rows, s.columns, d).registers,
                              s.rows * s.k * matrix_bits(a) / 32 / register_bits(a),
                              s.columns * s.k * matrix_bits(b) / 32 / register_bits(b),
                              result_fragment(s.rows, s.columns, c).registers};
  for (size_t i = 0; i < 4; ++i) {
    if (elements_of(in.operands[i]).size() < counts[i]) return false;
  }
  return true;
}

uint32_t packed(const MatrixShape& s) { return s.rows | s.columns << 8 | s.k << 16; }

bool known_shape(const MatrixShape& s, MatrixType a) {
  const uint32_t each = register_bits(a) / matrix_bits(a);
  return (s.rows == 8 || s.rows == 16) && s.columns == 8 && s.k <= 256 && s.k % (4 * each) == 0;
}

}  // namespace

// The registers of a fragment in memory, 32 lanes of each one behind the other.
Emitter::Value* Emitter::pass_fragment(const Operand& o, unsigned bits) {
  const auto elements = elements_of(o);
  llvm::Type* one = vector_of(int_type(bits));
  auto* slot = stack_slot(llvm::ArrayType::get(one, elements.size()));
  for (size_t i = 0; i < elements.size(); ++i) {
    Value* v = splat(get(elements[i], {'b', static_cast<uint8_t>(bits)}));
    b_.CreateStore(v, b_.CreateConstInBoundsGEP2_32(slot->getAllocatedType(), slot, 0, i));
  }
  return slot;
}

Emitter::Value* Emitter::fragment_room(const Operand& o, unsigned bits) {
  const size_t count = elements_of(o).size();
  return stack_slot(llvm::ArrayType::get(vector_of(int_type(bits)), count));
}

void Emitter::take_fragment(const Operand& o, Value* slot, unsigned bits) {
  const auto elements = elements_of(o);
  llvm::Type* one = vector_of(int_type(bits));
  llvm::Type* all = llvm::ArrayType::get(one, elements.size());
  for (size_t i = 0; i < elements.size(); ++i)
    set(elements[i], b_.CreateLoad(one, b_.CreateConstInBoundsGEP2_32(all, slot, 0, i)));
}

// mma[.sp].sync.aligned.shape.row.col[.satfinite][.op.popc][.kind][.block_scale[.scale_vec]].dtype
// .atype.btype.ctype[.stype] d, a, b, c[, metadata, selector][, scales of a, {byte, thread}, scales
// of b, {byte, thread}]
void Emitter::mma(const Instruction& in) {
  MatrixShape s;
  auto t = types_of(in);
  if (variant_.lanes != kWarpLanes) return unsupported(in, "it needs the whole warp");
  const bool sparse = in.has("sp") || in.has("sp::ordered_metadata");
  const bool scaled = in.has("block_scale");
  const size_t operands = 4 + (sparse ? 2 : 0) + (scaled ? 4 : 0);
  if (!shape_of(in, &s) || t.size() != 4 || in.operands.size() != operands) return unsupported(in);
  if (in.has("kind::mxf4") || in.has("kind::mxf4nvf4")) {
    for (size_t i = 1; i <= 2; ++i) {
      if (t[i] != MatrixType::kE2m1) return unsupported(in, "its kind has elements of 4 bits");
      t[i] = MatrixType::kE2m1Packed;
    }
  }
  if (!known_shape(s, t[1]) || matrix_bits(t[1]) != matrix_bits(t[2])) return unsupported(in);
  if (sparse && (s.rows != 16 || s.k > 128 || s.k % (2 * sparse_chunk(t[1]) * 2) != 0))
    return unsupported(in, "no shape of sparse products");
  if (s.k == 4 && t[1] == MatrixType::kF16) return unsupported(in, "a shape of compute_70");
  const uint32_t columns_a = sparse ? s.k / 2 : s.k;
  const Fragment a = operand_fragment(s.rows, columns_a, t[1]), b = operand_fragment(8, s.k, t[2]);
  const Fragment c = result_fragment(s.rows, 8, t[3]), d = result_fragment(s.rows, 8, t[0]);
  const uint32_t counts[4] = {d.registers, a.registers, b.registers, c.registers};
  for (size_t i = 0; i < 4; ++i) {
    if (elements_of(in.operands[i]).size() != counts[i]) return unsupported(in, "its registers");
  }
  Value *extra = nullptr, *words = nullptr;
  if ((sparse || scaled) && !matrix_extra(in, s, t[1], &extra, &words)) return;
  matrix_product(in, s, t[1], t[2], t[3], t[0], 0, extra, words);
}

// Metadata and scales of all lanes, one array behind the other, and the word that says which of
// them count.
bool Emitter::matrix_extra(const Instruction& in, const MatrixShape& s, MatrixType a, Value** extra,
                           Value** words) {
  const bool sparse = in.has("sp") || in.has("sp::ordered_metadata");
  llvm::Type* lanes = vector_of(int_type(32));
  auto* slot = stack_slot(llvm::ArrayType::get(lanes, 3));
  const auto keep = [&](const Operand& o, unsigned row) {
    b_.CreateStore(splat(get(o, {'b', 32})),
                   b_.CreateConstInBoundsGEP2_32(slot->getAllocatedType(), slot, 0, row));
  };
  uint32_t bits = 0;
  size_t next = 4;
  if (sparse) {
    const Operand& selector = in.operands[5];
    const uint32_t count = metadata_lanes(s.k, a);
    if (selector.kind != Operand::Kind::kInteger || count == 0 || count > 4 ||
        (count < 2 && matrix_bits(a) < 16) || static_cast<uint64_t>(selector.integer) >= 4 / count)
      return unsupported(in, "its sparsity selector"), false;
    keep(in.operands[4], 0);
    bits = 1u << kExtraSparse | static_cast<uint32_t>(selector.integer) << kExtraSelector;
    next = 6;
  }
  *words = slot;
  *extra = i32(bits);
  if (!in.has("block_scale")) return true;
  const uint32_t scales = in.has("scale_vec::1X")    ? 1
                          : in.has("scale_vec::2X")  ? 2
                          : in.has("scale_vec::4X")  ? 4
                          : in.has("kind::mxf4")     ? 2
                          : in.has("kind::mxf8f6f4") ? 1
                                                     : 0;
  const bool e4m3 = in.has("ue4m3");
  if (scales == 0 || (!e4m3 && !in.has("ue8m0"))) return unsupported(in, "its scales"), false;
  bits |= scales << kExtraScales | (e4m3 ? 1u << kExtraScaleE4m3 : 0u);
  *extra = i32(bits);
  for (unsigned side = 0; side < 2; ++side, next += 2) {
    const auto ids = elements_of(in.operands[next + 1]);
    if (ids.size() != 2) return unsupported(in, "its scales' selectors"), false;
    keep(in.operands[next], 1 + side);
    const uint32_t at[2] = {side == 0 ? kExtraByteA : kExtraByteB,
                            side == 0 ? kExtraThreadA : kExtraThreadB};
    for (size_t i = 0; i < 2; ++i) {
      Value* id = as(get(ids[i], {'u', 16}), int_type(32));
      if (is_vector(id)) id = b_.CreateExtractElement(id, uint64_t{0});
      id = b_.CreateShl(b_.CreateAnd(id, i32(3)), i32(at[i]));
      *extra = b_.CreateOr(*extra, id);
    }
  }
  return true;
}

void Emitter::matrix_product(const Instruction& in, const MatrixShape& s, MatrixType a,
                             MatrixType b, MatrixType c, MatrixType d, uint32_t flags, Value* extra,
                             Value* words) {
  flags |= (in.has("xor") ? 1u : 0u) | (in.has("satfinite") ? 2u : 0u);
  const uint32_t types = static_cast<uint32_t>(a) | static_cast<uint32_t>(b) << 8 |
                         static_cast<uint32_t>(c) << 16 | static_cast<uint32_t>(d) << 24;
  Value* out = fragment_room(in.operands[0], register_bits(d));
  std::vector<Value*> arguments = {i32(packed(s)), i32(types), i32(flags)};
  if (extra != nullptr) arguments.insert(arguments.end(), {extra, words});
  arguments.insert(arguments.end(), {pass_fragment(in.operands[1], register_bits(a)),
                                     pass_fragment(in.operands[2], register_bits(b)),
                                     pass_fragment(in.operands[3], register_bits(c)), out});
  call_helper(extra != nullptr ? "sg_mma_extra" : "sg_mma", b_.getVoidTy(), arguments);
  take_fragment(in.operands[0], out, register_bits(d));
}

// wmma.load.a|b|c…, wmma.store.d…, wmma.mma…
void Emitter::wmma(const Instruction& in) {
  MatrixShape s;
  const auto t = types_of(in);
  if (variant_.lanes != kWarpLanes) return unsupported(in, "it needs the whole warp");
  if (!shape_of(in, &s) || t.empty() || !known_wmma_shape(s)) return unsupported(in);
  if (in.has("mma")) {
    // Of halves only the types of d and c are written.
    const bool halves = t.size() == 2;
    if (!halves && t.size() != 4) return unsupported(in);
    const MatrixType a = halves ? MatrixType::kF16 : t[1], b = halves ? MatrixType::kF16 : t[2];
    const MatrixType c = halves ? t[1] : t[3];
    if (in.operands.size() != 4 || !enough_registers(in, s, a, b, c, t[0]))
      return unsupported(in, "its registers");
    return matrix_product(in, s, a, b, c, t[0], 4);
  }
  const bool stores = in.has("store");
  const Operand& fragment = in.operands[stores ? 1 : 0];
  const Operand& place = in.operands[stores ? 0 : 1];
  const uint32_t kind = in.has("a") ? 0 : in.has("b") ? 1 : 2;
  const bool by_columns = in.has("col");
  const uint32_t line = kind == 2                   ? (by_columns ? s.rows : s.columns)
                        : (kind == 0) == by_columns ? (kind == 0 ? s.rows : s.columns)
                                                    : s.k;
  Value* stride = in.operands.size() > 2 ? get(in.operands[2], {'b', 32}) : i32(line);
  const uint32_t code = static_cast<uint32_t>(t[0]) | kind << 8 | (by_columns ? 1u << 16 : 0u);
  const auto count = static_cast<uint32_t>(elements_of(fragment).size());
  Value* addresses = spill(lanes_of(address(place, in)));
  const unsigned bits = register_bits(t[0]);
  Value* slot = stores ? pass_fragment(fragment, bits) : fragment_room(fragment, bits);
  call_helper(stores ? "sg_wmma_store" : "sg_wmma_load", b_.getVoidTy(),
              {i32(packed(s)), i32(code), i32(count), addresses, spill(stride), slot});
  if (!stores) take_fragment(fragment, slot, bits);
}

// ldmatrix and stmatrix of 8 x 8 tiles of 16 bits: each lane gives the address of one row.
void Emitter::move_tiles(const Instruction& in) {
  const bool stores = in.opcode == "stmatrix";
  if (variant_.lanes != kWarpLanes) return unsupported(in, "it needs the whole warp");
  if (!in.has("m8n8") || !in.has("b16")) return unsupported(in);
  const Operand& fragment = in.operands[stores ? 1 : 0];
  const auto count = static_cast<uint32_t>(elements_of(fragment).size());
  if (count != (in.has("x4") ? 4u : in.has("x2") ? 2u : 1u)) return unsupported(in);
  Value* addresses = spill(lanes_of(address(in.operands[stores ? 0 : 1], in)));
  Value* slot = stores ? pass_fragment(fragment, 32) : fragment_room(fragment, 32);
  call_helper(stores ? "sg_store_tiles" : "sg_load_tiles", b_.getVoidTy(),
              {i32(count), i32(in.has("trans") ? 1 : 0), addresses, slot});
  if (!stores) take_fragment(fragment, slot, 32);
}

// movmatrix.sync.aligned.m8n8.trans.b16 d, a
void Emitter::transpose_tile(const Instruction& in) {
  if (variant_.lanes != kWarpLanes) return unsupported(in, "it needs the whole warp");
  if (!in.has("m8n8") || !in.has("b16")) return unsupported(in);
  Value* out = fragment_room(in.operands[0], 32);
  call_helper("sg_transpose_tile", b_.getVoidTy(), {pass_fragment(in.operands[1], 32), out});
  take_fragment(in.operands[0], out, 32);
}

}  // namespace vgpu::softgpu
