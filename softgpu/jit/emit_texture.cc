// Textures and surfaces through 64-bit handles. A helper walks the active lanes: what is sampled is
// known only when the kernel runs. Handles in variables of module scope are not served.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/texture_op.h"

namespace vgpu::softgpu {
namespace {

bool parse_geometry(const ptx::Instruction& in, TextureGeometry* geometry) {
  static const std::map<std::string, TextureGeometry> kNames = {
      {"1d", TextureGeometry::k1D},
      {"2d", TextureGeometry::k2D},
      {"3d", TextureGeometry::k3D},
      {"a1d", TextureGeometry::k1DLayered},
      {"a2d", TextureGeometry::k2DLayered},
      {"cube", TextureGeometry::kCube},
      {"acube", TextureGeometry::kCubeLayered}};
  for (const std::string& m : in.modifiers) {
    const auto found = kNames.find(m);
    if (found == kNames.end()) continue;
    *geometry = found->second;
    return true;
  }
  return false;
}

// Coordinates that count, layer included.
unsigned coordinates_of(TextureGeometry geometry) {
  switch (geometry) {
    case TextureGeometry::k1D:
      return 1;
    case TextureGeometry::k2D:
    case TextureGeometry::k1DLayered:
      return 2;
    case TextureGeometry::kCubeLayered:
      return 4;
    default:
      return 3;
  }
}

const std::vector<ptx::Operand>& parts(const ptx::Operand& o, std::vector<ptx::Operand>* one) {
  if (o.kind == ptx::Operand::Kind::kVector) return o.elements;
  one->assign(1, o);
  return *one;
}

}  // namespace

// Room for rows of 32 elements: element i of lane l lies at (i * 32 + l) * bytes.
Emitter::Value* Emitter::lane_rows(unsigned rows, unsigned bytes) {
  auto* slot = stack_slot(llvm::ArrayType::get(int_type(8), rows * kWarpLanes * bytes));
  slot->setAlignment(llvm::Align(8));
  return slot;
}

Emitter::Value* Emitter::lane_row(Value* rows, unsigned row, unsigned bytes) {
  return b_.CreateConstInBoundsGEP1_64(int_type(8), rows, uint64_t{row} * kWarpLanes * bytes);
}

void Emitter::store_lane_row(Value* rows, unsigned row, unsigned bytes, Value* v) {
  b_.CreateAlignedStore(splat(v), lane_row(rows, row, bytes), llvm::Align(bytes));
}

// Row `row` into a destination, whichever way the register is kept.
void Emitter::take_lane_row(const Operand& d, Value* rows, unsigned row, unsigned bytes) {
  if (d.kind == Operand::Kind::kSink) return;
  Value* v = b_.CreateAlignedLoad(vector_of(int_type(bytes * 8)), lane_row(rows, row, bytes),
                                  llvm::Align(bytes));
  set(d, scalar_register(d.reg) ? first_active(v) : v);
}

// What all running lanes have in common, from the first of them.
Emitter::Value* Emitter::first_active(Value* v) {
  if (!is_vector(v)) return v;
  Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_, b_.getFalse());
  return b_.CreateExtractElement(v, first);
}

// The handles of [handle, {…}], one per lane; nullptr when they are not in a register.
Emitter::Value* Emitter::texture_handles(const Instruction& in, const Operand& o,
                                         size_t parts_max) {
  if (o.reg < 0) {
    unsupported(in, "texture, sampler and surface references; use objects");
    return nullptr;
  }
  if (o.elements.size() > parts_max) {
    unsupported(in, "a sampler of its own");
    return nullptr;
  }
  Operand handle;
  handle.kind = Operand::Kind::kRegister;
  handle.reg = o.reg;
  return spill(get(handle, {'b', 64}));
}

// Words of `o`, a vector or a single operand, into rows from `row` on.
bool Emitter::store_words(const Operand& o, Value* rows, unsigned row, unsigned count,
                          const Type& first_type, const Type& type) {
  std::vector<Operand> one;
  const auto& elements = parts(o, &one);
  if (elements.size() < count) return false;
  for (unsigned i = 0; i < count; ++i) {
    const Type& t = i == 0 ? first_type : type;
    const Operand& e = elements[i];
    Value* v = get(e, e.kind == Operand::Kind::kFloat ? t : Type{'b', 32});
    store_lane_row(rows, row + i, 4, as(v, int_type(32)));
  }
  return true;
}

// tex[.level|.grad].geometry.v4.type.coordinate d[|p], [handle, {…}][, level | dx, dy];
// tld4.component.geometry.v4.type.f32 d[|p], [handle, {…}]
void Emitter::texture_fetch(const Instruction& in) {
  TextureOp op;
  Type result, coordinate;
  if (!parse_geometry(in, &op.geometry) || !in.type_from_end(0, &coordinate) ||
      !in.type_from_end(1, &result) || result.bits != 32 || coordinate.bits != 32 ||
      !in.has("v4")) {
    return unsupported(in);
  }
  op.integer_coordinates = coordinate.kind != 'f';
  op.gather = in.opcode == "tld4";
  op.component = in.has("a") ? 3 : in.has("b") ? 2 : in.has("g") ? 1 : 0;
  op.level = in.has("level")  ? LevelMode::kLevel
             : in.has("grad") ? LevelMode::kGradient
                              : LevelMode::kBase;
  const size_t operands = 2 + static_cast<size_t>(op.level);
  if (in.operands.size() != operands || in.operands[1].elements.size() != 1)
    return unsupported(in, "offsets and depth comparisons");
  Value* handles = texture_handles(in, in.operands[1], 1);
  if (handles == nullptr) return;
  Value* inputs = lane_rows(kTextureInputs, 4);
  const bool layered = op.geometry == TextureGeometry::k1DLayered ||
                       op.geometry == TextureGeometry::k2DLayered ||
                       op.geometry == TextureGeometry::kCubeLayered;
  const unsigned count = coordinates_of(op.geometry);
  const Type word{'u', 32}, real{'f', 32};
  bool complete = store_words(in.operands[1].elements[0], inputs, 0, count,
                              layered ? word : coordinate, coordinate);
  if (op.level == LevelMode::kLevel)
    complete = complete && store_words(in.operands[2], inputs, kLevelInput, 1, real, real);
  if (op.level == LevelMode::kGradient) {
    const unsigned axes = count - (layered ? 1 : 0);
    complete = complete && store_words(in.operands[2], inputs, kLevelInput, axes, real, real) &&
               store_words(in.operands[3], inputs, kGradientInput, axes, real, real);
  }
  if (!complete) return unsupported(in, "fewer coordinates than the geometry has");
  Value* out = lane_rows(4, 4);
  call_helper("sg_texture", b_.getVoidTy(), {warp_, i32(op.pack()), mask_, handles, inputs, out});
  const Operand& d = in.operands[0];
  for (unsigned i = 0; i < d.elements.size() && i < 4; ++i) take_lane_row(d.elements[i], out, i, 4);
  if (d.second >= 0) set_register(d.second, b_.getTrue());  // all of a texture is in memory
}

bool Emitter::parse_surface(const Instruction& in, SurfaceOp* op) {
  Type type;
  if (!parse_geometry(in, &op->geometry) || !in.type_from_end(0, &type) || type.is_float())
    return false;
  op->bytes = static_cast<uint8_t>(type.bytes());
  op->is_signed = type.is_signed();
  op->count = in.has("v4") ? 4 : in.has("v2") ? 2 : 1;
  op->formatted = in.has("p");
  op->mode = in.has("clamp")  ? SurfaceMode::kClamp
             : in.has("zero") ? SurfaceMode::kZero
                              : SurfaceMode::kTrap;
  return op->geometry != TextureGeometry::kCube && op->geometry != TextureGeometry::kCubeLayered;
}

// suld.b.geometry[.vec].type.mode d, [handle, {…}];  sust.b|p… [handle, {…}], v;
// sured.b|p.op.geometry.type.mode [handle, {…}], v
void Emitter::surface(const Instruction& in) {
  SurfaceOp op;
  const bool load = in.opcode == "suld", reduction = in.opcode == "sured";
  if (!parse_surface(in, &op) || in.operands.size() != 2) return unsupported(in);
  if (op.formatted && (load || op.bytes != 4)) return unsupported(in);
  if (reduction) {
    if (op.bytes < 4 || op.count != 1) return unsupported(in);
    op.reduction = in.has("min")   ? SurfaceReduction::kMin
                   : in.has("max") ? SurfaceReduction::kMax
                   : in.has("and") ? SurfaceReduction::kAnd
                   : in.has("or")  ? SurfaceReduction::kOr
                                   : SurfaceReduction::kAdd;
  }
  const Operand& place = in.operands[load ? 1 : 0];
  const Operand& data = in.operands[load ? 0 : 1];
  Value* handles = texture_handles(in, place, 1);
  if (handles == nullptr) return;
  Value* coordinates = lane_rows(4, 4);
  const Type word{'s', 32};
  if (place.elements.size() != 1 ||
      !store_words(place.elements[0], coordinates, 0, coordinates_of(op.geometry), word, word)) {
    return unsupported(in, "fewer coordinates than the geometry has");
  }
  std::vector<Operand> one;
  const auto& elements = parts(data, &one);
  if (elements.size() != op.count) return unsupported(in, "a vector of another length");
  Value* values = lane_rows(op.count, op.bytes);
  const std::vector<Value*> arguments{warp_, i32(op.pack()), mask_, handles, coordinates, values};
  if (load) {
    call_helper("sg_surface_load", b_.getVoidTy(), arguments);
    for (unsigned i = 0; i < op.count; ++i) take_lane_row(elements[i], values, i, op.bytes);
    return;
  }
  const Type bits{'b', static_cast<uint8_t>(op.bytes * 8)};
  for (unsigned i = 0; i < op.count; ++i) {
    const Operand& e = elements[i];
    const bool real = e.kind == Operand::Kind::kFloat;
    Value* v = get(e, real ? Type{'f', bits.bits} : bits);
    store_lane_row(values, i, op.bytes, as(v, int_type(bits.bits)));
  }
  call_helper(reduction ? "sg_surface_reduce" : "sg_surface_store", b_.getVoidTy(), arguments);
}

// txq.what.b32 d, [handle];  txq.level.what.b32 d, [handle], level;  suq.what.b32 d, [handle];
// istypep.texref|surfref|samplerref p, handle
void Emitter::texture_query(const Instruction& in) {
  static const std::map<std::string, TextureQuery> kQuestions = {
      {"width", TextureQuery::kWidth},
      {"height", TextureQuery::kHeight},
      {"depth", TextureQuery::kDepth},
      {"channel_data_type", TextureQuery::kChannelType},
      {"channel_order", TextureQuery::kChannelOrder},
      {"normalized_coords", TextureQuery::kNormalized},
      {"array_size", TextureQuery::kArraySize},
      {"num_mipmap_levels", TextureQuery::kLevels},
      {"texref", TextureQuery::kIsTexture},
      {"surfref", TextureQuery::kIsSurface}};
  const bool level = in.has("level");
  if (in.operands.size() != (level ? 3u : 2u)) return unsupported(in);
  const Operand& d = in.operands[0];
  if (in.opcode == "istypep" && in.has("samplerref"))  // objects have no samplers of their own
    return set(d, b_.getFalse());
  const auto question = kQuestions.find(in.modifiers[level ? 1 : 0]);
  if (question == kQuestions.end()) return unsupported(in);
  Value* handles = texture_handles(in, in.operands[1], 0);
  if (handles == nullptr) return;
  Value* levels = lane_rows(1, 4);
  store_lane_row(levels, 0, 4, level ? get(in.operands[2], {'b', 32}) : i32(0));
  Value* out = lane_rows(1, 4);
  call_helper("sg_texture_query", b_.getVoidTy(),
              {warp_, i32(static_cast<uint32_t>(question->second)), mask_, handles, levels, out});
  if (in.opcode != "istypep") return take_lane_row(d, out, 0, 4);
  Value* answers = b_.CreateAlignedLoad(vector_of(int_type(32)), out, llvm::Align(4));
  Value* holds = b_.CreateICmpNE(answers, splat(i32(0)));
  set(d, scalar_register(d.reg) ? first_active(holds) : holds);
}

}  // namespace vgpu::softgpu
