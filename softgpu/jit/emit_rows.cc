// Accesses in rows: runs of lanes (a whole warp, or one row of a narrow block) whose addresses are
// known to be base + lane * stride. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

Emitter::Rows Emitter::rows_of(const Address& a) {
  if (a.lane0 != nullptr) return {{a.lane0}, variant_.lanes, a.stride};
  return {a.row_bases, variant_.row, a.row_stride};
}

// Lanes of one row out of a vector that has `each` elements a lane.
Emitter::Value* Emitter::row_of(Value* vector, const Rows& rows, size_t row, uint32_t each) {
  if (rows.bases.size() == 1) return vector;
  std::vector<int> pick;
  for (unsigned i = 0; i < rows.width * each; ++i)
    pick.push_back(static_cast<int>(row * rows.width * each + i));
  return b_.CreateShuffleVector(vector, pick);
}

// <width * each x i1>: the lanes of a row that run.
Emitter::Value* Emitter::row_mask(const Rows& rows, size_t row, uint32_t each) {
  Value* lanes;
  if (rows.bases.size() == 1) {
    lanes = mask_vector(mask_);
  } else {
    Value* mask = b_.CreateTrunc(b_.CreateLShr(mask_, i32(row * rows.width)), int_type(rows.width));
    lanes = b_.CreateBitCast(mask, llvm::FixedVectorType::get(int_type(1), rows.width));
  }
  if (each == 1) return lanes;
  std::vector<int> spread;
  for (unsigned i = 0; i < rows.width * each; ++i) spread.push_back(static_cast<int>(i / each));
  return b_.CreateShuffleVector(lanes, spread);
}

// Vectors of equal length, a power of two of them, one behind the other.
Emitter::Value* Emitter::concatenate(std::vector<Value*> parts) {
  while (parts.size() > 1) {
    const unsigned length =
        llvm::cast<llvm::FixedVectorType>(parts[0]->getType())->getNumElements();
    std::vector<int> all;
    for (unsigned i = 0; i < 2 * length; ++i) all.push_back(static_cast<int>(i));
    std::vector<Value*> longer;
    for (size_t i = 0; i < parts.size(); i += 2)
      longer.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], all));
    parts = std::move(longer);
  }
  return parts[0];
}

// `each` elements a lane, lane after lane.
Emitter::Value* Emitter::load_rows(const Rows& rows, llvm::Type* t, uint32_t each) {
  auto* type = llvm::FixedVectorType::get(t, rows.width * each);
  std::vector<Value*> parts;
  for (size_t row = 0; row < rows.bases.size(); ++row) {
    // The processor does not mind, and the address may be anything.
    parts.push_back(b_.CreateMaskedLoad(type, pointer(rows.bases[row]), llvm::Align(1),
                                        row_mask(rows, row, each),
                                        llvm::Constant::getNullValue(type)));
  }
  return concatenate(std::move(parts));
}

void Emitter::store_rows(const Rows& rows, Value* v, uint32_t each) {
  for (size_t row = 0; row < rows.bases.size(); ++row) {
    b_.CreateMaskedStore(row_of(v, rows, row, each), pointer(rows.bases[row]), llvm::Align(1),
                         row_mask(rows, row, each));
  }
}

// One element a row. A row of which no lane runs has no address: it reads from our stack.
Emitter::Value* Emitter::load_row_scalars(const Rows& rows, llvm::Type* t) {
  Value* nowhere = b_.CreatePtrToInt(stack_slot(t), int_type(64));
  std::vector<Value*> parts;
  for (size_t row = 0; row < rows.bases.size(); ++row) {
    Value* lanes = b_.CreateAnd(mask_, i32(((uint64_t{1} << rows.width) - 1) << row * rows.width));
    Value* any = b_.CreateICmpNE(lanes, i32(0));
    Value* place = b_.CreateSelect(any, rows.bases[row], nowhere);
    Value* one = b_.CreateAlignedLoad(t, pointer(place), llvm::Align(1));
    parts.push_back(b_.CreateVectorSplat(rows.width, one));
  }
  return concatenate(std::move(parts));
}

// {a, b[, c, d]} at consecutive addresses: one wide load a row, then the lanes are pulled apart.
bool Emitter::load_wide(const Instruction& in, const Address& a, const Type& t, uint32_t each) {
  const Rows rows = rows_of(a);
  if (rows.bases.empty() || rows.stride != static_cast<int64_t>(t.bytes()) * each || ordered(in))
    return false;
  Value* all = load_rows(rows, int_type(t.bits), each);
  const auto& parts = in.operands[0].elements;
  for (uint32_t e = 0; e < each; ++e) {
    std::vector<int> pick;
    for (uint32_t i = 0; i < variant_.lanes; ++i) pick.push_back(static_cast<int>(i * each + e));
    set(parts[e], widen_loaded(b_.CreateShuffleVector(all, pick), t, parts[e]));
  }
  return true;
}

// The other way round.
bool Emitter::store_wide(const Instruction& in, const Address& a, const std::vector<Value*>& values,
                         const Type& t) {
  const Rows rows = rows_of(a);
  const auto each = static_cast<uint32_t>(values.size());
  const bool fits = each == 2 || each == 4;
  if (!fits || rows.bases.empty() || rows.stride != static_cast<int64_t>(t.bytes()) * each ||
      ordered(in)) {
    return false;
  }
  std::vector<Value*> parts;
  for (Value* v : values) parts.push_back(splat(as(v, int_type(t.bits))));
  std::vector<int> pick;
  for (uint32_t i = 0; i < variant_.lanes; ++i) {
    for (uint32_t e = 0; e < each; ++e) pick.push_back(static_cast<int>(e * variant_.lanes + i));
  }
  Value* all = concatenate(std::move(parts));
  store_rows(rows, b_.CreateShuffleVector(all, pick), each);
  return true;
}

}  // namespace vgpu::softgpu
