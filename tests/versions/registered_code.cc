// The fat binary holds PTX for an architecture that every driver since CUDA 11 compiles.
// SPDX-License-Identifier: Apache-2.0
#include "tests/versions/registered_code.h"

namespace vgpu_versions {

char scale_stub, offset_stub;
float bias_shadow;

namespace {

using vgpu::cudart::test::ContainerBuilder;
using vgpu::cudart::test::kPtxEntry;

constexpr char kPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .f32 bias = 0f3F000000;

.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n)
{
  .reg .pred %p;
  .reg .f32 %f<5>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [data];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.f32 %f2, [bias];
  add.f32 %f3, %f1, %f2;
  ld.global.f32 %f4, [%rd4];
  mul.f32 %f4, %f4, %f3;
  st.global.f32 [%rd4], %f4;
done:
  ret;
}

.visible .entry add_index(.param .u64 out, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<7>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4];
  add.u32 %r6, %r6, %r5;
  st.global.u32 [%rd4], %r6;
done:
  ret;
}
)";

// One container with one uncompressed entry of PTX 7.0 for 64 bits and Linux.
std::string make_container(const std::string& ptx) {
  constexpr size_t kMajorOffset = 16 + 26;  // behind the container's header
  std::string container = ContainerBuilder().add(kPtxEntry, 52, 0x11, ptx + '\0').build();
  ContainerBuilder::put<uint16_t>(&container, kMajorOffset, 7);
  return container;
}

}  // namespace

RegisteredCode::RegisteredCode(const RuntimeApi& api)
    : api_(api),
      container_(make_container(kPtx)),
      wrapper_{.container = container_.data()},
      handle_(api.register_fat_binary(&wrapper_)) {
  api.register_function(handle_, &scale_stub, const_cast<char*>("scale"), "scale", -1, nullptr,
                        nullptr, nullptr, nullptr, nullptr);
  api.register_function(handle_, &offset_stub, const_cast<char*>("add_index"), "add_index", -1,
                        nullptr, nullptr, nullptr, nullptr, nullptr);
  api.register_var(handle_, reinterpret_cast<char*>(&bias_shadow), const_cast<char*>("bias"),
                   "bias", 0, sizeof bias_shadow, 0, 0);
  api.register_fat_binary_end(handle_);
}

RegisteredCode::~RegisteredCode() { api_.unregister_fat_binary(handle_); }

}  // namespace vgpu_versions
