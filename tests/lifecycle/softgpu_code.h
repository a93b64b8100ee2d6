// Code on the software GPU for guests written by hand: three kernels, loaded and launched.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_LIFECYCLE_SOFTGPU_CODE_H_
#define VGPU_TESTS_LIFECYCLE_SOFTGPU_CODE_H_

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "module_layout_generated.h"
#include "tests/support/guest.h"

namespace vgpu::testing {

inline constexpr uint64_t kModule = SlotId::make(4, 1, 0);
inline constexpr uint64_t kUpload = SlotId::make(8, 1, 0);

// double_all(p): p[i] *= 2.  wild(p): writes to *p.  spin(p): runs until *p is not zero.
inline constexpr char kPtx[] = R"(
.version 7.5
.target sm_75
.address_size 64
.visible .entry double_all(.param .u64 p)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r4, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
  add.u32 %r5, %r5, %r5;
  st.global.u32 [%rd3], %r5;
  ret;
}
.visible .entry wild(.param .u64 p)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry spin(.param .u64 p)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
)";

class SoftGpuCode {
 protected:
  // Context, memory and the module with its three kernels. The memory's address; 0 = it failed.
  uint64_t prepare(Guest* guest, const protocol::HelloReply& hello) {
    guest->enter_context();
    const uint64_t memory = guest->allocate(hello, 4 << 20);
    load_module(guest);
    return ::testing::Test::HasFatalFailure() ? 0 : memory;
  }
  void load_module(Guest* guest) {
    wire::ImageChunkArgs chunk;
    chunk.upload = kUpload;
    chunk.total = chunk.bytes = sizeof(kPtx);
    guest->post(Op::kImageChunk, chunk, std::string(kPtx, sizeof(kPtx)));
    wire::ModuleLoadArgs load;
    load.module = kModule;
    load.upload = kUpload;
    load.slab_bytes = 64 * 1024;
    load.optimization_level = -1;
    protocol::Reply reply;
    ASSERT_EQ(guest->call(Op::kModuleLoad, load, &reply), 0);
    wire::ModuleLoadReply loaded;
    ASSERT_TRUE(reply.get(&loaded));
    const auto* bytes = reinterpret_cast<const uint8_t*>(guest->channel().down_slab().data());
    flatbuffers::Verifier verifier(bytes, loaded.layout_bytes);
    ASSERT_TRUE(protocol::fb::VerifyModuleLayoutBuffer(verifier));
    const auto* kernels = protocol::fb::GetModuleLayout(bytes)->kernels();
    ASSERT_EQ(kernels->size(), 3u);
    for (uint32_t i = 0; i < 3; ++i) {
      index_[kernels->Get(i)->name()->str()] = i;
      ASSERT_EQ(kernels->Get(i)->params()->size(), 1u);
      EXPECT_EQ(kernels->Get(i)->params()->Get(0)->bytes(), 8u);
    }
  }
  void launch(Guest* guest, const std::string& kernel, uint64_t pointer, uint32_t blocks = 1,
              uint32_t threads = 1, uint64_t stream = 1) {
    wire::LaunchArgs args;
    args.module = kModule;
    args.stream = stream;
    args.index = index_.at(kernel);
    args.grid[0] = blocks;
    args.grid[1] = args.grid[2] = args.block[1] = args.block[2] = 1;
    args.block[0] = threads;
    args.param_bytes = sizeof(pointer);
    guest->post(Op::kLaunch, args,
                std::string(reinterpret_cast<const char*>(&pointer), sizeof(pointer)));
  }

  std::map<std::string, uint32_t> index_;  // of the kernels
};

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_LIFECYCLE_SOFTGPU_CODE_H_
