// Gathers of more than one word at a time: several words of each lane, or the words of many lanes
// out of one piece of shared memory. SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Host.h>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {
namespace {

constexpr unsigned kHalf = 16;
constexpr uint64_t kWindowBytes = 128;

// Places in a vector of 16 words, four by four, out of this vector and a second one.
std::vector<int> in_fours(int a, int b, int c, int d) {
  std::vector<int> pick;
  for (int four = 0; four < 16; four += 4) {
    for (int at : {a, b, c, d}) pick.push_back(at + four);
  }
  return pick;
}

}  // namespace

// Whether the processor takes 16 words out of any 32 at once.
bool Emitter::permutes() {
  static const bool kThere = [] {
    const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    const auto found = features.find("avx512f");
    return found != features.end() && found->second;
  }();
  return kThere && variant_.lanes == kWarpLanes;
}

// Half a warp that stays within 128 aligned bytes is served by two loads and a permutation. Only
// one thread at a time runs a block, so that nobody sees what is read beside.
Emitter::Value* Emitter::gather_in_windows(Value* addresses, llvm::Type* t) {
  auto* word_half = llvm::FixedVectorType::get(int_type(32), kHalf);
  Value *fits = b_.getTrue(), *bases[2], *places[2];
  Half halves[2];
  make_halves(addresses, halves);
  for (unsigned h = 0; h < 2; ++h) {
    const Half& half = halves[h];
    bases[h] = b_.CreateAnd(half.head, i64(~(kWindowBytes - 1)));
    Value* inside = b_.CreateSub(half.addresses, b_.CreateVectorSplat(kHalf, bases[h]));
    Value* outside = b_.CreateAnd(inside, b_.CreateVectorSplat(kHalf, i64(~(kWindowBytes - 4))));
    Value* good =
        b_.CreateBitCast(b_.CreateICmpEQ(outside, llvm::Constant::getNullValue(outside->getType())),
                         int_type(kHalf));
    good = b_.CreateOr(good, b_.CreateNot(half.mask));
    fits = b_.CreateAnd(fits, b_.CreateICmpEQ(good, constant(int_type(kHalf), 0xffff)));
    places[h] =
        b_.CreateTrunc(b_.CreateLShr(inside, b_.CreateVectorSplat(kHalf, i64(2))), word_half);
  }
  auto* in_windows = llvm::BasicBlock::Create(context_, "windows", function_);
  auto* anywhere = llvm::BasicBlock::Create(context_, "", function_);
  auto* done = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(fits, in_windows, anywhere);
  b_.SetInsertPoint(in_windows);
  Value* found[2];
  for (unsigned h = 0; h < 2; ++h) {
    Value* low = b_.CreateAlignedLoad(word_half, pointer(bases[h]), llvm::Align(64));
    Value* above = b_.CreateAdd(bases[h], i64(kWindowBytes / 2));
    Value* high = b_.CreateAlignedLoad(word_half, pointer(above), llvm::Align(64));
    found[h] = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_d_512, {},
                                  {low, places[h], high});
  }
  Value* from_windows = b_.CreateBitCast(join_halves(found[0], found[1]), vector_of(t));
  b_.CreateBr(done);
  b_.SetInsertPoint(anywhere);
  Value* from_anywhere = gather_anywhere(addresses, t);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  auto* result = b_.CreatePHI(vector_of(t), 2);
  result->addIncoming(from_windows, in_windows);
  result->addIncoming(from_anywhere, anywhere);
  return result;
}

// {a, b[, c, d]} of lanes that go anywhere. False when the words are to be fetched one by one.
bool Emitter::gather_wide(const Instruction& in, const Address& a, const Type& t, uint32_t each) {
  if (ordered(in) || variant_.strict || a.lane0 != nullptr || !a.row_bases.empty() ||
      !inlines_memory(t.bytes()))
    return false;
  const auto& parts = in.operands[0].elements;
  std::vector<Value*> words;
  if (each == 2 && t.bytes() == 4) {
    Value* pairs = gather_inline(a.lanes, int_type(64), 8, false);
    words.push_back(b_.CreateTrunc(pairs, vector_of(int_type(32))));
    words.push_back(b_.CreateTrunc(b_.CreateLShr(pairs, splat(i64(32))), vector_of(int_type(32))));
  } else if (each * t.bytes() == 16) {
    words = sort_into_lanes(fetch_each(a.lanes, int_type(t.bits), each), each);
  } else {
    return false;
  }
  for (uint32_t e = 0; e < each; ++e) set(parts[e], widen_loaded(words[e], t, parts[e]));
  return true;
}

// 16 bytes for every lane; those that do not run fetch what the first one does that does.
std::vector<Emitter::Value*> Emitter::fetch_each(Value* addresses, llvm::Type* t, uint32_t each) {
  Value* safe = b_.CreateSelect(mask_vector(mask_), addresses, splat(first_active(addresses)));
  Value* slot = spill(safe);
  auto* type = llvm::FixedVectorType::get(t, each);
  std::vector<Value*> fetched;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    Value* place = b_.CreateConstInBoundsGEP1_64(int_type(64), slot, lane);
    auto* at = b_.CreateAlignedLoad(int_type(64), place, llvm::Align(8));
    at->setVolatile(true);  // else it becomes a piece of the vector, which takes longer
    fetched.push_back(b_.CreateAlignedLoad(type, pointer(at), llvm::Align(1)));
  }
  return fetched;
}

// From each lane's words to all lanes' first words, all lanes' second words, …: a transposition
// within pieces of 16 bytes, into which lanes go so that they come out in order.
std::vector<Emitter::Value*> Emitter::sort_into_lanes(const std::vector<Value*>& fetched,
                                                      uint32_t each) {
  const unsigned group = 4 * each;  // lanes in a vector of 64 bytes
  std::vector<std::vector<Value*>> columns(each);
  for (unsigned first = 0; first < kWarpLanes; first += group) {
    std::vector<Value*> rows;
    for (unsigned j = 0; j < each; ++j) {
      std::vector<Value*> some;
      for (unsigned s = 0; s < 4; ++s) some.push_back(fetched[first + each * s + j]);
      rows.push_back(concatenate(std::move(some)));
    }
    if (each == 2) {
      columns[0].push_back(b_.CreateShuffleVector(rows[0], rows[1], {0, 8, 2, 10, 4, 12, 6, 14}));
      columns[1].push_back(b_.CreateShuffleVector(rows[0], rows[1], {1, 9, 3, 11, 5, 13, 7, 15}));
      continue;
    }
    for (unsigned pair = 0; pair < 2; ++pair) {
      const int at = static_cast<int>(2 * pair);
      const std::vector<int> mixed = in_fours(at, at + 16, at + 1, at + 17);
      Value* low = b_.CreateShuffleVector(rows[0], rows[1], mixed);
      Value* high = b_.CreateShuffleVector(rows[2], rows[3], mixed);
      columns[2 * pair].push_back(b_.CreateShuffleVector(low, high, in_fours(0, 1, 16, 17)));
      columns[2 * pair + 1].push_back(b_.CreateShuffleVector(low, high, in_fours(2, 3, 18, 19)));
    }
  }
  std::vector<Value*> sorted;
  for (auto& column : columns) sorted.push_back(concatenate(std::move(column)));
  return sorted;
}

}  // namespace vgpu::softgpu
