// Texture and surface objects: descriptors, what is refused, and the instructions that runtime
// programs seldom use.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using TextureTest = ContextTest;

const char kTextureKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64

// out[0..7]: width, height, depth, format, channels, normalised, levels, width of level 1;
// out[8..9]: is it a texture, a surface
.visible .entry questions(.param .u64 handle, .param .u64 out)
{
  .reg .pred %p<2>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [handle];
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  txq.width.b32 %r0, [%rd0];
  txq.height.b32 %r1, [%rd0];
  txq.depth.b32 %r2, [%rd0];
  txq.channel_data_type.b32 %r3, [%rd0];
  txq.channel_order.b32 %r4, [%rd0];
  txq.normalized_coords.b32 %r5, [%rd0];
  txq.num_mipmap_levels.b32 %r6, [%rd0];
  mov.u32 %r8, 1;
  txq.level.width.b32 %r7, [%rd0], %r8;
  istypep.texref %p0, %rd0;
  istypep.surfref %p1, %rd0;
  selp.u32 %r9, 1, 0, %p0;
  selp.u32 %r10, 1, 0, %p1;
  st.global.u32 [%rd2], %r0;
  st.global.u32 [%rd2+4], %r1;
  st.global.u32 [%rd2+8], %r2;
  st.global.u32 [%rd2+12], %r3;
  st.global.u32 [%rd2+16], %r4;
  st.global.u32 [%rd2+20], %r5;
  st.global.u32 [%rd2+24], %r6;
  st.global.u32 [%rd2+28], %r7;
  st.global.u32 [%rd2+32], %r9;
  st.global.u32 [%rd2+36], %r10;
  ret;
}

// Each thread of 32 adds, takes the maximum, and stores by texel.
.visible .entry reduce(.param .u64 handle, .param .u64 out)
{
  .reg .b32 %r<16>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [handle];
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, 0;
  sured.b.add.1d.u32.trap [%rd0, {%r1}], %r0;
  sured.b.max.1d.s32.trap [%rd0, {4}], %r0;
  sured.p.min.1d.s32.trap [%rd0, {2}], -5;
  sured.b.or.1d.b32.zero [%rd0, {4000}], %r0;
  sust.p.1d.b32.trap [%rd0, {3}], {%r0};
  suq.width.b32 %r2, [%rd0];
  suq.channel_data_type.b32 %r3, [%rd0];
  st.global.u32 [%rd2], %r2;
  st.global.u32 [%rd2+4], %r3;
  ret;
}

// One fetch at (x, y); its channels.
.visible .entry fetch(.param .u64 handle, .param .u64 out, .param .f32 x, .param .f32 y)
{
  .reg .f32 %f<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [handle];
  ld.param.u64 %rd1, [out];
  ld.param.f32 %f4, [x];
  ld.param.f32 %f5, [y];
  cvta.to.global.u64 %rd2, %rd1;
  tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%f4, %f5}];
  st.global.v4.f32 [%rd2], {%f0, %f1, %f2, %f3};
  ret;
}

// Two halves of a warp look through two textures.
.visible .entry two(.param .u64 first, .param .u64 second, .param .u64 out)
{
  .reg .pred %p; .reg .b32 %r<4>; .reg .f32 %f<6>; .reg .b64 %rd<8>;
  ld.param.u64 %rd0, [first];
  ld.param.u64 %rd1, [second];
  ld.param.u64 %rd2, [out];
  cvta.to.global.u64 %rd3, %rd2;
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p, %r0, 16;
  selp.b64 %rd4, %rd0, %rd1, %p;
  mov.u32 %r1, 0;
  tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd4, {%r1}];
  mul.wide.u32 %rd5, %r0, 4;
  add.u64 %rd6, %rd3, %rd5;
  st.global.f32 [%rd6], %f0;
  ret;
}
)";

CUDA_ARRAY3D_DESCRIPTOR describe(size_t width, size_t height, size_t depth, CUarray_format format,
                                 unsigned channels, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = width, d.Height = height, d.Depth = depth;
  d.Format = format, d.NumChannels = channels, d.Flags = flags;
  return d;
}

class Array {
 public:
  explicit Array(const CUDA_ARRAY3D_DESCRIPTOR& d) { EXPECT_OK(cuArray3DCreate_v2(&array_, &d)); }
  ~Array() { EXPECT_OK(cuArrayDestroy(array_)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  operator CUarray() const { return array_; }  // NOLINT(google-explicit-constructor)
  CUDA_RESOURCE_DESC resource() const {
    CUDA_RESOURCE_DESC r = {};
    r.resType = CU_RESOURCE_TYPE_ARRAY;
    r.res.array.hArray = array_;
    return r;
  }

 private:
  CUarray array_ = nullptr;
};

void run(const char* name, const std::vector<void*>& parameters, unsigned threads) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kTextureKernels));
  ASSERT_OK(cuModuleGetFunction(&function, module, name));
  EXPECT_OK(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr,
                           const_cast<void**>(parameters.data()), nullptr));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(TextureTest, DescriptorsComeBack) {
  const Array array(describe(16, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4));
  const CUDA_RESOURCE_DESC resource = array.resource();
  CUDA_TEXTURE_DESC how = {};
  how.addressMode[0] = CU_TR_ADDRESS_MODE_BORDER;
  how.filterMode = CU_TR_FILTER_MODE_LINEAR;
  how.flags = CU_TRSF_NORMALIZED_COORDINATES;
  how.maxAnisotropy = 4;
  how.borderColor[2] = 0.5f;
  CUDA_RESOURCE_VIEW_DESC view = {};
  view.format = CU_RES_VIEW_FORMAT_UINT_1X32;
  view.width = 16, view.height = 8;
  CUtexObject plain = 0, seen = 0;
  ASSERT_OK(cuTexObjectCreate(&plain, &resource, &how, nullptr));
  ASSERT_OK(cuTexObjectCreate(&seen, &resource, &how, &view));
  EXPECT_NE(plain, seen);
  CUDA_RESOURCE_DESC resource_back;
  CUDA_TEXTURE_DESC how_back;
  CUDA_RESOURCE_VIEW_DESC view_back;
  EXPECT_OK(cuTexObjectGetResourceDesc(&resource_back, plain));
  EXPECT_EQ(resource_back.resType, CU_RESOURCE_TYPE_ARRAY);
  EXPECT_EQ(resource_back.res.array.hArray, static_cast<CUarray>(array));
  EXPECT_OK(cuTexObjectGetTextureDesc(&how_back, plain));
  EXPECT_EQ(std::memcmp(&how_back, &how, sizeof(how)), 0);
  EXPECT_CU(cuTexObjectGetResourceViewDesc(&view_back, plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuTexObjectGetResourceViewDesc(&view_back, seen));
  EXPECT_EQ(view_back.format, CU_RES_VIEW_FORMAT_UINT_1X32);
  EXPECT_CU(cuTexObjectGetTextureDesc(nullptr, plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuSurfObjectDestroy(plain), CUDA_ERROR_INVALID_VALUE);  // it is no surface
  EXPECT_OK(cuTexObjectDestroy(plain));
  EXPECT_OK(cuTexObjectDestroy(seen));
  EXPECT_CU(cuTexObjectDestroy(plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuTexObjectGetResourceDesc(&resource_back, plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuTexObjectDestroy(0x1234), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, WrongDescriptors) {
  const Array array(describe(16, 8, 0, CU_AD_FORMAT_FLOAT, 1));
  const CUDA_RESOURCE_DESC good = array.resource();
  const CUDA_TEXTURE_DESC plain = {};
  CUtexObject t = 0;
  EXPECT_CU(cuTexObjectCreate(nullptr, &good, &plain, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuTexObjectCreate(&t, nullptr, &plain, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuTexObjectCreate(&t, &good, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  const auto wrong_how = [&](auto change) {
    CUDA_TEXTURE_DESC how = {};
    change(&how);
    EXPECT_CU(cuTexObjectCreate(&t, &good, &how, nullptr), CUDA_ERROR_INVALID_VALUE);
  };
  wrong_how([](auto* h) { h->addressMode[1] = static_cast<CUaddress_mode>(4); });
  wrong_how([](auto* h) { h->filterMode = static_cast<CUfilter_mode>(2); });
  wrong_how([](auto* h) { h->flags = 0x4000; });
  wrong_how([](auto* h) { h->flags = CU_TRSF_SEAMLESS_CUBEMAP; });
  const auto wrong_resource = [&](auto change, CUresult expected = CUDA_ERROR_INVALID_VALUE) {
    CUDA_RESOURCE_DESC resource = good;
    change(&resource);
    EXPECT_CU(cuTexObjectCreate(&t, &resource, &plain, nullptr), expected);
  };
  wrong_resource([](auto* r) { r->resType = static_cast<CUresourcetype>(7); });
  wrong_resource([](auto* r) { r->flags = 1; });
  wrong_resource([](auto* r) { r->res.array.hArray = garbage_handle<CUarray>(); },
                 CUDA_ERROR_INVALID_HANDLE);
  const auto wrong_view = [&](auto change, CUresult expected = CUDA_ERROR_INVALID_VALUE) {
    CUDA_RESOURCE_VIEW_DESC view = {};
    view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
    view.width = 16, view.height = 8;
    change(&view);
    EXPECT_CU(cuTexObjectCreate(&t, &good, &plain, &view), expected);
  };
  wrong_view([](auto* v) { v->width = 15; });
  wrong_view([](auto* v) { v->format = CU_RES_VIEW_FORMAT_FLOAT_2X32; });
  wrong_view([](auto* v) { v->lastMipmapLevel = 1; });
  wrong_view([](auto* v) { v->lastLayer = 1; });
  wrong_view([](auto* v) { v->format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1; },
             CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(TextureTest, MemoryResources) {
  const Words words(4096);
  const CUDA_TEXTURE_DESC how = {};
  CUDA_RESOURCE_DESC row = {};
  row.resType = CU_RESOURCE_TYPE_LINEAR;
  row.res.linear.devPtr = words.at();
  row.res.linear.format = CU_AD_FORMAT_FLOAT;
  row.res.linear.numChannels = 1;
  row.res.linear.sizeInBytes = words.bytes();
  CUDA_RESOURCE_DESC plane = {};
  plane.resType = CU_RESOURCE_TYPE_PITCH2D;
  plane.res.pitch2D.devPtr = words.at();
  plane.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT16;
  plane.res.pitch2D.numChannels = 2;
  plane.res.pitch2D.width = 100, plane.res.pitch2D.height = 32;
  plane.res.pitch2D.pitchInBytes = 512;
  CUtexObject t = 0;
  for (const CUDA_RESOURCE_DESC& good : {row, plane}) {
    ASSERT_OK(cuTexObjectCreate(&t, &good, &how, nullptr));
    EXPECT_OK(cuTexObjectDestroy(t));
    CUDA_RESOURCE_VIEW_DESC view = {};
    EXPECT_CU(cuTexObjectCreate(&t, &good, &how, &view), CUDA_ERROR_INVALID_VALUE);
  }
  const auto wrong = [&](CUDA_RESOURCE_DESC resource, auto change) {
    change(&resource);
    EXPECT_CU(cuTexObjectCreate(&t, &resource, &how, nullptr), CUDA_ERROR_INVALID_VALUE);
  };
  wrong(row, [](auto* r) { r->res.linear.devPtr += 4; });  // not aligned
  wrong(row, [](auto* r) { r->res.linear.devPtr = 0; });
  wrong(row, [](auto* r) { r->res.linear.sizeInBytes = 0; });
  wrong(row, [](auto* r) { r->res.linear.sizeInBytes = size_t{1} << 40; });
  wrong(row, [](auto* r) { r->res.linear.numChannels = 3; });
  wrong(plane, [](auto* r) { r->res.pitch2D.width = 0; });
  wrong(plane, [](auto* r) { r->res.pitch2D.pitchInBytes = 384; });
  wrong(plane, [](auto* r) { r->res.pitch2D.pitchInBytes = 520; });
  wrong(plane, [](auto* r) { r->res.pitch2D.height = 40; });
}

TEST_F(TextureTest, SurfaceRules) {
  const Array plain(describe(16, 8, 0, CU_AD_FORMAT_FLOAT, 1));
  const Array good(describe(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST));
  CUDA_RESOURCE_DESC resource = plain.resource();
  CUsurfObject s = 0;
  EXPECT_CU(cuSurfObjectCreate(&s, &resource), CUDA_ERROR_INVALID_VALUE);
  resource = good.resource();
  EXPECT_CU(cuSurfObjectCreate(nullptr, &resource), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuSurfObjectCreate(&s, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuSurfObjectCreate(&s, &resource));
  CUDA_RESOURCE_DESC back;
  EXPECT_OK(cuSurfObjectGetResourceDesc(&back, s));
  EXPECT_EQ(back.res.array.hArray, static_cast<CUarray>(good));
  EXPECT_CU(cuTexObjectDestroy(s), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuSurfObjectDestroy(s));
  EXPECT_CU(cuSurfObjectDestroy(s), CUDA_ERROR_INVALID_VALUE);
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  EXPECT_CU(cuSurfObjectCreate(&s, &resource), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, QuestionsOfKernels) {
  const CUDA_ARRAY3D_DESCRIPTOR d = describe(20, 6, 0, CU_AD_FORMAT_UNSIGNED_INT16, 2);
  CUmipmappedArray mipmapped = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmapped, &d, 3));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = mipmapped;
  CUDA_TEXTURE_DESC how = {};
  CUtexObject t = 0;
  EXPECT_CU(cuTexObjectCreate(&t, &resource, &how, nullptr), CUDA_ERROR_INVALID_VALUE);
  how.flags = CU_TRSF_NORMALIZED_COORDINATES;  // mipmapped arrays need it
  ASSERT_OK(cuTexObjectCreate(&t, &resource, &how, nullptr));
  const Words words(10);
  CUdeviceptr out = words.at();
  run("questions", {&t, &out}, 1);
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{20, 6, 1, 0x10d3, 0x10b2, 1, 3, 10, 1, 0}));
  EXPECT_OK(cuTexObjectDestroy(t));
  EXPECT_OK(cuMipmappedArrayDestroy(mipmapped));
}

TEST_F(TextureTest, ReductionsOnSurfaces) {
  const Array array(describe(32, 0, 0, CU_AD_FORMAT_SIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST));
  std::vector<int32_t> texels(32, 0);
  EXPECT_OK(cuMemcpyHtoA_v2(array, 0, texels.data(), 128));
  const CUDA_RESOURCE_DESC resource = array.resource();
  CUsurfObject s = 0;
  ASSERT_OK(cuSurfObjectCreate(&s, &resource));
  const Words words(2);
  CUdeviceptr out = words.at();
  run("reduce", {&s, &out}, 32);
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{32, 0x10d9}));
  EXPECT_OK(cuMemcpyAtoH_v2(texels.data(), array, 0, 128));
  EXPECT_EQ(texels[0], 31 * 32 / 2);
  EXPECT_EQ(texels[1], 31);
  EXPECT_EQ(texels[2], -5);
  EXPECT_EQ(texels[3], 31);  // of lanes that store to one place the last wins
  EXPECT_OK(cuSurfObjectDestroy(s));
}

TEST_F(TextureTest, FetchThroughAView) {
  const Array array(describe(4, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1));
  std::vector<uint32_t> texels(8);
  for (uint32_t i = 0; i < 8; ++i) texels[i] = 0xff000000 | i << 16 | 0x3300 | (51 * i % 256);
  CUDA_MEMCPY2D copy = {};
  copy.WidthInBytes = 16, copy.Height = 2;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = texels.data();
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
  EXPECT_OK(cuMemcpy2D_v2(&copy));
  const CUDA_RESOURCE_DESC resource = array.resource();
  const CUDA_TEXTURE_DESC how = {};
  CUDA_RESOURCE_VIEW_DESC view = {};
  view.format = CU_RES_VIEW_FORMAT_UINT_4X8;
  view.width = 4, view.height = 2;
  CUtexObject t = 0;
  ASSERT_OK(cuTexObjectCreate(&t, &resource, &how, &view));
  const Words words(4);
  CUdeviceptr out = words.at();
  float x = 2.5f, y = 1.5f;
  run("fetch", {&t, &out, &x, &y}, 1);
  const auto bits = words.read();
  float channels[4];
  std::memcpy(channels, bits.data(), sizeof(channels));
  EXPECT_FLOAT_EQ(channels[0], (51 * 6 % 256) / 255.0f);
  EXPECT_FLOAT_EQ(channels[1], 0x33 / 255.0f);
  EXPECT_FLOAT_EQ(channels[2], 6 / 255.0f);
  EXPECT_FLOAT_EQ(channels[3], 1.0f);
  EXPECT_OK(cuTexObjectDestroy(t));
}

TEST_F(TextureTest, LanesWithDifferentTextures) {
  const CUDA_TEXTURE_DESC how = {};
  CUtexObject t[2] = {};
  const Words a(128), b(128), words(32);
  EXPECT_OK(cuMemsetD32_v2(a.at(), 0x3f800000, 128));
  EXPECT_OK(cuMemsetD32_v2(b.at(), 0x40000000, 128));
  for (int i = 0; i < 2; ++i) {
    CUDA_RESOURCE_DESC row = {};
    row.resType = CU_RESOURCE_TYPE_LINEAR;
    row.res.linear.devPtr = i == 0 ? a.at() : b.at();
    row.res.linear.format = CU_AD_FORMAT_FLOAT;
    row.res.linear.numChannels = 1;
    row.res.linear.sizeInBytes = a.bytes();
    ASSERT_OK(cuTexObjectCreate(&t[i], &row, &how, nullptr));
  }
  CUdeviceptr out = words.at();
  run("two", {&t[0], &t[1], &out}, 32);
  const auto bits = words.read();
  EXPECT_EQ(bits[0], 0x3f800000U);
  EXPECT_EQ(bits[15], 0x3f800000U);
  EXPECT_EQ(bits[16], 0x40000000U);
  EXPECT_EQ(bits[31], 0x40000000U);
  EXPECT_OK(cuTexObjectDestroy(t[0]));
  EXPECT_OK(cuTexObjectDestroy(t[1]));
}

TEST(TextureFaultTest, DestroyedHandle) {
  EXPECT_EQ(run_in_fresh_process("TextureFaultChildTest.DISABLED_DestroyedHandle"), 0);
}

// Without the fixture's end: after the fault no call of this context succeeds.
TEST(TextureFaultChildTest, DISABLED_DestroyedHandle) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction fetch = nullptr;
  CUdeviceptr out = 0;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuModuleLoadData(&module, kTextureKernels));
  ASSERT_OK(cuModuleGetFunction(&fetch, module, "fetch"));
  ASSERT_OK(cuMemAlloc_v2(&out, 64));
  CUtexObject gone = 0x1230;
  float x = 0, y = 0;
  void* params[] = {&gone, &out, &x, &y};
  EXPECT_OK(cuLaunchKernel(fetch, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace vgpu::conformance
