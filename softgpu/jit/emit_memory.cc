// Loads and stores. The shape of the address decides: one load for all, one vector, or a gather.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// Seen by other threads while it happens.
bool Emitter::ordered(const Instruction& in) {
  return in.has("volatile") || in.has("relaxed") || in.has("acquire") || in.has("release") ||
         in.has("mmio");
}

// Host addresses: shared offsets get the window added, symbols stand for their place.
Emitter::Address Emitter::address(const Operand& o, const Instruction& in) {
  Address a;
  const bool shared = in.in_shared();
  a.shared = shared;
  if (!o.symbol.empty()) {
    Operand s = o;
    s.kind = Operand::Kind::kSymbol;
    a.lane0 = symbol_address(s);
    a.stride = stride_of(s);
    const auto own = kernel_.function.variables.find(o.symbol);
    const auto all = kernel_.module->variables.find(o.symbol);
    const bool in_window =
        own != kernel_.function.variables.end()
            ? own->second.space == ptx::Space::kShared
            : all != kernel_.module->variables.end() && all->second.space == ptx::Space::kShared;
    if (in_window)
      a.lane0 = b_.CreateAdd(a.lane0, context_field(offsetof(WarpContext, shared), int_type(64)));
    return a;
  }
  Value* window = shared ? context_field(offsetof(WarpContext, shared), int_type(64)) : i64(0);
  if (o.reg < 0) {
    a.lane0 = b_.CreateAdd(i64(static_cast<uint64_t>(o.integer)), window);
    return a;
  }
  // 32-bit registers hold shared offsets. They wrap: what is taken as negative comes back into the
  // window, which is far below 2 GiB, with the constant or with the lane's multiple of the stride.
  a.stride = kernel_.stride[o.reg];
  Value* raw = raw_register(o.reg);
  const bool offsets = shared && raw->getType()->getScalarType() == int_type(32);
  auto extended = [&](Value* v) {
    return offsets ? b_.CreateSExt(v, shaped(int_type(64), v)) : as(v, int_type(64));
  };
  Value* extra = b_.CreateAdd(window, i64(static_cast<uint64_t>(o.integer)));
  if (a.stride != Kernel::kNotAffine) {
    a.lane0 = b_.CreateAdd(extended(raw), extra);
    return a;
  }
  a.lanes = b_.CreateAdd(extended(raw), splat(extra));
  if (kernel_.row_stride.empty() || kernel_.row_stride[o.reg] == Kernel::kNotAffine) return a;
  a.row_stride = kernel_.row_stride[o.reg];
  for (unsigned lane = 0; lane < variant_.lanes; lane += variant_.row) {
    Value* base = extended(b_.CreateExtractElement(raw, uint64_t{lane}));
    a.row_bases.push_back(b_.CreateAdd(base, extra));
  }
  return a;
}

Emitter::Address Emitter::offset(const Address& a, int64_t bytes) {
  Address r = a;
  if (bytes == 0) return r;
  if (r.lane0 != nullptr) r.lane0 = b_.CreateAdd(r.lane0, i64(static_cast<uint64_t>(bytes)));
  for (Value*& base : r.row_bases) base = b_.CreateAdd(base, i64(static_cast<uint64_t>(bytes)));
  if (r.lanes != nullptr) r.lanes = b_.CreateAdd(r.lanes, splat(i64(static_cast<uint64_t>(bytes))));
  return r;
}

Emitter::Value* Emitter::lanes_of(const Address& a) {
  if (a.lanes != nullptr) return a.lanes;
  if (a.stride == 0) return splat(a.lane0);
  Value* steps = b_.CreateMul(iota(64), splat(i64(static_cast<uint64_t>(a.stride))));
  return b_.CreateAdd(splat(a.lane0), steps);
}

Emitter::Value* Emitter::load_element(const Address& a, llvm::Type* t, uint32_t bytes,
                                      bool is_volatile) {
  if (a.lane0 != nullptr && a.stride == 0) {
    auto* v = b_.CreateAlignedLoad(t, pointer(a.lane0), llvm::Align(bytes));
    v->setVolatile(is_volatile);
    return v;
  }
  llvm::Type* vector = vector_of(t);
  const Rows rows = rows_of(a);
  if (!rows.bases.empty() && !is_volatile) {
    if (rows.stride == static_cast<int64_t>(bytes)) return load_rows(rows, t, 1);
    if (rows.stride == 0) return load_row_scalars(rows, t);
  }
  if (!is_volatile && inlines_memory(bytes)) return gather_inline(lanes_of(a), t, bytes, a.shared);
  Value* addresses = spill(lanes_of(a));
  auto* out = stack_slot(vector);
  const std::string helper = "sg_gather" + std::to_string(bytes);
  call_helper(helper.c_str(), b_.getVoidTy(), {addresses, mask_, out});
  return b_.CreateLoad(vector, out);
}

void Emitter::store_element(const Address& a, Value* v, uint32_t bytes, bool is_volatile) {
  if (a.lane0 != nullptr && a.stride == 0) {
    if (is_vector(v)) {  // all lanes write one place: the last one wins
      Value* last = b_.CreateSub(
          i32(31), b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, mask_, b_.getFalse()));
      v = b_.CreateExtractElement(v, last);
    }
    b_.CreateAlignedStore(v, pointer(a.lane0), llvm::Align(bytes))->setVolatile(is_volatile);
    return;
  }
  v = splat(v);
  const Rows rows = rows_of(a);
  if (!rows.bases.empty() && rows.stride == static_cast<int64_t>(bytes) && !is_volatile)
    return store_rows(rows, v, 1);
  if (!is_volatile && inlines_memory(bytes)) return scatter_inline(lanes_of(a), v, bytes);
  Value* addresses = spill(lanes_of(a));
  auto* from = stack_slot(v->getType());
  b_.CreateStore(v, from);
  const std::string helper = "sg_scatter" + std::to_string(bytes);
  call_helper(helper.c_str(), b_.getVoidTy(), {addresses, mask_, from});
}

// A loaded value narrower than its register is extended by its type.
Emitter::Value* Emitter::widen_loaded(Value* v, const Type& t, const Operand& d) {
  if (d.kind == Operand::Kind::kSink) return v;
  const unsigned bits = kernel_.function.registers[d.reg].type.bits;
  if (t.kind == 's' && bits > t.bits) return b_.CreateSExt(v, shaped(int_type(bits), v));
  return v;
}

// {a, b[, c, d]} that other threads may write or read at the same time: as on the hardware, 8 or 16
// aligned bytes move as one, which look-back through pairs of flag and value counts on.
bool Emitter::moves_whole(const Instruction& in, uint32_t bytes) const {
  return ordered(in) && (bytes == 8 || bytes == 16);
}

llvm::Type* Emitter::whole_type(uint32_t bytes) {
  return bytes == 8 ? int_type(64) : llvm::FixedVectorType::get(int_type(64), 2);
}

std::vector<Emitter::Value*> Emitter::load_whole(const Address& a, const Type& t, uint32_t count) {
  const uint32_t bytes = t.bytes() * count;
  Value* whole;
  if (a.lane0 != nullptr && a.stride == 0) {
    auto* loaded = b_.CreateAlignedLoad(whole_type(bytes), pointer(a.lane0), llvm::Align(1));
    loaded->setVolatile(true);
    whole = b_.CreateBitCast(loaded, int_type(bytes * 8));
  } else {
    whole = load_element(a, int_type(bytes * 8), bytes, true);
  }
  std::vector<Value*> values;
  for (uint32_t i = 0; i < count; ++i) {
    Value* part = b_.CreateLShr(whole, llvm::ConstantInt::get(whole->getType(), i * t.bits));
    values.push_back(b_.CreateTrunc(part, shaped(int_type(t.bits), part)));
  }
  return values;
}

void Emitter::store_whole(const Address& a, const std::vector<Value*>& values, const Type& t) {
  const auto bytes = static_cast<uint32_t>(values.size()) * t.bytes();
  Value* whole = nullptr;
  for (size_t i = 0; i < values.size(); ++i) {
    Value* v = splat(as(values[i], int_type(t.bits)));
    Value* part = b_.CreateZExt(v, vector_of(int_type(bytes * 8)));
    part = b_.CreateShl(part, llvm::ConstantInt::get(part->getType(), i * t.bits));
    whole = whole == nullptr ? part : b_.CreateOr(whole, part);
  }
  if (a.lane0 == nullptr || a.stride != 0) return store_element(a, whole, bytes, true);
  Value* last =
      b_.CreateSub(i32(31), b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, mask_, b_.getFalse()));
  Value* one = b_.CreateBitCast(b_.CreateExtractElement(whole, last), whole_type(bytes));
  b_.CreateAlignedStore(one, pointer(a.lane0), llvm::Align(1))->setVolatile(true);
}

void Emitter::load(const Instruction& in) {
  load_parts(in);
  if (in.has("acquire")) b_.CreateFence(llvm::AtomicOrdering::Acquire);
}

void Emitter::load_parts(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  Address a = address(in.operands[1], in);
  const Operand& d = in.operands[0];
  const auto parts = static_cast<uint32_t>(std::max<size_t>(d.elements.size(), 1));
  watch_access(in, a, parts * t.bytes());
  // A register that must be a scalar gets one value: the address is uniform then.
  if (d.kind != Operand::Kind::kVector) {
    Value* v = load_element(a, int_type(t.bits), t.bytes(), ordered(in));
    return set(d, widen_loaded(v, t, d));
  }
  const auto lanes = static_cast<uint32_t>(d.elements.size());
  if (load_wide(in, a, t, lanes) || gather_wide(in, a, t, lanes)) return;
  std::vector<Value*>
      values;  // all loads before the first write: a destination may be part of the address
  const bool whole = moves_whole(in, lanes * t.bytes());
  if (whole) values = load_whole(a, t, lanes);
  for (uint32_t i = 0; !whole && i < lanes; ++i) {
    values.push_back(load_element(offset(a, static_cast<int64_t>(i) * t.bytes()), int_type(t.bits),
                                  t.bytes(), ordered(in)));
  }
  for (uint32_t i = 0; i < lanes; ++i)
    set(d.elements[i], widen_loaded(values[i], t, d.elements[i]));
}

void Emitter::store(const Instruction& in) {
  Type t;
  if (in.has("bulk")) return clear_bulk(in);
  if (in.has("async")) {
    store(at_once(in));
    return count_bytes(in, 2);
  }
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  const Address a = address(in.operands[0], in);
  const Operand& from = in.operands[1];
  const Type bits{'b', t.bits};
  watch_access(in, a, static_cast<uint32_t>(std::max<size_t>(from.elements.size(), 1)) * t.bytes());
  if (in.has("release")) b_.CreateFence(llvm::AtomicOrdering::Release);
  if (from.kind != Operand::Kind::kVector) {
    return store_element(
        a, get(from, t.is_float() && from.kind != Operand::Kind::kRegister ? t : bits), t.bytes(),
        ordered(in));
  }
  std::vector<Value*> values;
  for (const Operand& e : from.elements)
    values.push_back(get(e, t.is_float() && e.kind != Operand::Kind::kRegister ? t : bits));
  if (moves_whole(in, static_cast<uint32_t>(values.size()) * t.bytes()))
    return store_whole(a, values, t);
  if (store_wide(in, a, values, t)) return;
  for (size_t i = 0; i < values.size(); ++i) {
    Value* v = values[i];
    store_element(offset(a, static_cast<int64_t>(i) * t.bytes()), v, t.bytes(), ordered(in));
  }
}

void Emitter::prefetch(const Instruction&) {}

void Emitter::fence(const Instruction& in) {
  const bool block_only = in.has("cta");
  b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent,
                 block_only ? llvm::SyncScope::SingleThread : llvm::SyncScope::System);
}

}  // namespace vgpu::softgpu
