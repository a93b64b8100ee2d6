// Tensor maps.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

struct Shape {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  cuuint32_t rank = 2;
  uint64_t offset = 0;  // of the address
  cuuint64_t size0 = 64, stride = 256;
  cuuint32_t box0 = 16, step1 = 1;
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

alignas(64) CUtensorMap g_map[2];

CUresult encode(World& w, const Shape& s, CUtensorMap* map = g_map) {
  const cuuint64_t sizes[5] = {s.size0, 8, 4, 2, 2};
  const cuuint64_t strides[4] = {s.stride, 8 * s.stride, 32 * s.stride, 64 * s.stride};
  const cuuint32_t box[5] = {s.box0, 2, 1, 1, 1}, steps[5] = {1, s.step1, 1, 1, 1};
  return w.cu->cuTensorMapEncodeTiled(
      map, s.type, s.rank, reinterpret_cast<void*>(w.memory + s.offset), sizes, strides, box, steps,
      s.interleave, s.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, s.fill);
}

CUresult without(World& w, int which) {
  const cuuint64_t sizes[2] = {64, 8}, strides[1] = {256};
  const cuuint32_t box[2] = {16, 2}, steps[2] = {1, 1};
  return w.cu->cuTensorMapEncodeTiled(
      which == 0 ? nullptr : g_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
      which == 1 ? nullptr : reinterpret_cast<void*>(w.memory), which == 2 ? nullptr : sizes,
      which == 3 ? nullptr : strides, which == 4 ? nullptr : box, which == 5 ? nullptr : steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

struct Pixels {
  cuuint32_t rank = 4, channels = 8, pixels = 64, step1 = 1;
  int lower0 = -1, upper0 = -1;
  bool no_lower = false;
};

CUresult encode_pixels(World& w, const Pixels& p) {
  const cuuint64_t sizes[6] = {8, 8, 8, 2, 2, 2}, strides[5] = {16, 128, 1024, 2048, 4096};
  const int lower[3] = {p.lower0, -1, -1}, upper[3] = {p.upper0, -1, -1};
  const cuuint32_t steps[6] = {1, p.step1, 1, 1, 1, 1};
  return w.cu->cuTensorMapEncodeIm2col(
      g_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, p.rank, reinterpret_cast<void*>(w.memory), sizes,
      strides, p.no_lower ? nullptr : lower, upper, p.channels, p.pixels, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

template <typename Change>
CUresult pixels_but(World& w, const Change& change) {
  Pixels p;
  change(p);
  return encode_pixels(w, p);
}

CUresult move(World& w, uint64_t offset, bool to_nothing = false) {
  if (CUresult r = encode(w, {}); r != CUDA_SUCCESS) return r;
  return w.cu->cuTensorMapReplaceAddress(
      g_map, to_nothing ? nullptr : reinterpret_cast<void*>(w.memory + offset));
}

CUtensorMap* misaligned() { return reinterpret_cast<CUtensorMap*>(&g_map[0].opaque[1]); }

const Row kRows[] = {
    STEPS(kFresh, kNotInit, kDocumented, "a tensor map encoded", { return encode(w, {}); }),
    STEPS(kFresh, kNotInit, kDocumented, "a tensor map moved",
          { return w.cu->cuTensorMapReplaceAddress(g_map, g_map); }),
    STEPS(kReady, kOk, kDocumented, "a tensor map encoded", { return encode(w, {}); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map encoded with no map",
          { return without(w, 0); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map encoded with no address",
          { return without(w, 1); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map encoded with no sizes",
          { return without(w, 2); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map encoded with no strides",
          { return without(w, 3); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map encoded with no box",
          { return without(w, 4); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map encoded with no steps",
          { return without(w, 5); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map at no multiple of 64 bytes",
          { return encode(w, {}, misaligned()); }),
    STEPS(kReady, kValue, kDocumented, "a tensor of no dimensions",
          {
            Shape s;
            s.rank = 0;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "a tensor of five dimensions",
          {
            Shape s;
            s.rank = 5;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a tensor of six dimensions",
          {
            Shape s;
            s.rank = 6;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a tensor of an unknown type",
          {
            Shape s;
            s.type = static_cast<CUtensorMapDataType>(99);
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a tensor whose address is no multiple of 16",
          {
            Shape s;
            s.offset = 8;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a tensor with an empty dimension",
          {
            Shape s;
            s.size0 = 0;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "a dimension of 2^32",
          {
            Shape s;
            s.size0 = 1ull << 32;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a dimension of more than 2^32",
          {
            Shape s;
            s.size0 = (1ull << 32) + 1;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a stride that is no multiple of 16",
          {
            Shape s;
            s.stride = 260;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a stride of 2^40",
          {
            Shape s;
            s.stride = 1ull << 40;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "an empty box",
          {
            Shape s;
            s.box0 = 0;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "a box of 256 elements",
          {
            Shape s;
            s.box0 = 256;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a box of more than 256 elements",
          {
            Shape s;
            s.box0 = 260;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "rows of a box that are no multiple of 16 bytes",
          {
            Shape s;
            s.box0 = 6;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "no step",
          {
            Shape s;
            s.step1 = 0;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "a step of 8",
          {
            Shape s;
            s.step1 = 8;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "a step of more than 8",
          {
            Shape s;
            s.step1 = 9;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "an unknown swizzle",
          {
            Shape s;
            s.swizzle = static_cast<CUtensorMapSwizzle>(7);
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "rows of a box beyond their swizzle",
          {
            Shape s;
            s.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "rows of a box as long as their swizzle",
          {
            Shape s;
            s.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "an unknown interleave",
          {
            Shape s;
            s.interleave = static_cast<CUtensorMapInterleave>(3);
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "interleaved by 32 bytes without their swizzle",
          {
            Shape s;
            s.rank = 3;
            s.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "outside of a tensor of floats are NaNs",
          {
            Shape s;
            s.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
            return encode(w, s);
          }),
    STEPS(kReady, kValue, kDocumented, "outside of a tensor of integers are NaNs",
          {
            Shape s;
            s.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
            s.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
            return encode(w, s);
          }),
    STEPS(kReady, kOk, kDocumented, "a tensor map moved", { return move(w, 4096); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map moved to no multiple of 16",
          { return move(w, 8); }),
    STEPS(kReady, kValue, kDocumented, "a tensor map moved to nowhere",
          { return move(w, 0, true); }),
    STEPS(kReady, kValue, kDocumented, "no tensor map moved",
          { return w.cu->cuTensorMapReplaceAddress(nullptr, g_map); }),
    STEPS(kFresh, kNotInit, kDocumented, "a tensor map of pixels encoded",
          { return encode_pixels(w, {}); }),
    STEPS(kReady, kOk, kDocumented, "a tensor map of pixels encoded",
          { return encode_pixels(w, {}); }),
    STEPS(kReady, kValue, kDocumented, "pixels in two dimensions",
          { return pixels_but(w, [](Pixels& p) { p.rank = 2; }); }),
    STEPS(kReady, kOk, kDocumented, "pixels in three dimensions",
          { return pixels_but(w, [](Pixels& p) { p.rank = 3; }); }),
    STEPS(kReady, kOk, kDocumented, "pixels in five dimensions",
          { return pixels_but(w, [](Pixels& p) { p.rank = 5; }); }),
    STEPS(kReady, kValue, kDocumented, "pixels in six dimensions",
          { return pixels_but(w, [](Pixels& p) { p.rank = 6; }); }),
    STEPS(kReady, kValue, kDocumented, "pixels without a lower corner",
          { return pixels_but(w, [](Pixels& p) { p.no_lower = true; }); }),
    STEPS(kReady, kValue, kDocumented, "pixels of no channels",
          { return pixels_but(w, [](Pixels& p) { p.channels = 0; }); }),
    STEPS(kReady, kValue, kDocumented, "pixels of too many channels",
          { return pixels_but(w, [](Pixels& p) { p.channels = 257; }); }),
    STEPS(kReady, kValue, kDocumented, "a column of no pixels",
          { return pixels_but(w, [](Pixels& p) { p.pixels = 0; }); }),
    STEPS(kReady, kOk, kDocumented, "a column of 1024 pixels",
          { return pixels_but(w, [](Pixels& p) { p.pixels = 1024; }); }),
    STEPS(kReady, kValue, kDocumented, "a column of 1025 pixels",
          { return pixels_but(w, [](Pixels& p) { p.pixels = 1025; }); }),
    STEPS(kReady, kValue, kDocumented, "pixels with a step of none",
          { return pixels_but(w, [](Pixels& p) { p.step1 = 0; }); }),
    STEPS(kReady, kValue, kDocumented, "pixels with a step of nine",
          { return pixels_but(w, [](Pixels& p) { p.step1 = 9; }); }),
    STEPS(kReady, kValue, kDocumented, "a corner that no byte holds",
          { return pixels_but(w, [](Pixels& p) { p.lower0 = -129; }); }),
    STEPS(kReady, kOk, kDocumented, "a corner at the end of a byte",
          { return pixels_but(w, [](Pixels& p) { p.upper0 = 127; }); }),
    STEPS(kReady, kValue, kDocumented, "a corner beyond a byte",
          { return pixels_but(w, [](Pixels& p) { p.upper0 = 128; }); }),
};

}  // namespace

const std::span<const Row> kTensorRows = kRows;

}  // namespace vgpu::fidelity
