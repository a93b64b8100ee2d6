// Numbers under which emitted code asks the runtime for atomics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace vgpu::softgpu {

enum class AtomicOp : uint32_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor, kExch, kCas };
enum class AtomicType : uint32_t { kU32, kS32, kF32, kU64, kS64, kF64, kU16, kNone };

inline bool parse_atomic_op(const std::string& name, AtomicOp* op) {
  static const struct {
    const char* name;
    AtomicOp op;
  } kNames[] = {{"add", AtomicOp::kAdd}, {"min", AtomicOp::kMin}, {"max", AtomicOp::kMax},
                {"inc", AtomicOp::kInc}, {"dec", AtomicOp::kDec}, {"and", AtomicOp::kAnd},
                {"or", AtomicOp::kOr},   {"xor", AtomicOp::kXor}, {"exch", AtomicOp::kExch},
                {"cas", AtomicOp::kCas}};
  for (const auto& row : kNames) {
    if (name == row.name) {
      *op = row.op;
      return true;
    }
  }
  return false;
}

inline AtomicType atomic_type(char kind, unsigned bits) {
  if (kind == 'f')
    return bits == 32 ? AtomicType::kF32 : bits == 64 ? AtomicType::kF64 : AtomicType::kNone;
  if (kind == 'h' || kind == 'g') return AtomicType::kNone;
  if (bits == 16) return AtomicType::kU16;
  if (bits == 32) return kind == 's' ? AtomicType::kS32 : AtomicType::kU32;
  if (bits == 64) return kind == 's' ? AtomicType::kS64 : AtomicType::kU64;
  return AtomicType::kNone;
}

}  // namespace vgpu::softgpu
