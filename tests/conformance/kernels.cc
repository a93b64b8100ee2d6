// The suite's kernels as PTX text.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"
#include "kernel_text.h"

namespace vgpu::conformance {
namespace {

constexpr std::string_view kVariables = R"(.visible .global .align 4 .u32 counter = 7;
.extern .shared .align 4 .b8 dynamic[];
)";

// Kernels that are no loop over elements.
constexpr std::string_view kOthers = R"(
.visible .entry where(.param .u64 out)
{
  .reg .b32 %r<24>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %ctaid.x;  mov.u32 %r1, %ctaid.y;  mov.u32 %r2, %ctaid.z;
  mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;
  mov.u32 %r5, %tid.x;    mov.u32 %r6, %tid.y;    mov.u32 %r7, %tid.z;
  mov.u32 %r8, %ntid.x;   mov.u32 %r9, %ntid.y;   mov.u32 %r10, %ntid.z;
  mad.lo.u32 %r11, %r2, %r4, %r1;
  mad.lo.u32 %r12, %r11, %r3, %r0;
  mad.lo.u32 %r13, %r7, %r9, %r6;
  mad.lo.u32 %r14, %r13, %r8, %r5;
  mul.lo.u32 %r15, %r8, %r9;
  mul.lo.u32 %r16, %r15, %r10;
  mad.lo.u32 %r17, %r12, %r16, %r14;
  shl.b32 %r18, %r12, 16;
  or.b32 %r19, %r18, %r14;
  cvta.to.global.u64 %rd1, %rd0;
  mul.wide.u32 %rd2, %r17, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r19;
  ret;
}

.visible .entry gate(.param .u64 flag)
{
  .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [flag];
  cvta.to.global.u64 %rd1, %rd0;
AGAIN:
  ld.volatile.global.u32 %r0, [%rd1];
  setp.eq.u32 %p, %r0, 0;
  @%p bra AGAIN;
  ret;
}

.visible .entry poke(.param .u64 address)
{
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [address];
  mov.u32 %r0, 1;
  st.global.u32 [%rd0], %r0;
  ret;
}

.visible .entry sum(.param .u64 out, .param .u64 in)
{
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %rd<8>;
  ld.param.u64 %rd0, [out];
  ld.param.u64 %rd1, [in];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ntid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  mov.u32 %r3, dynamic;
  shl.b32 %r4, %r0, 2;
  add.u32 %r5, %r3, %r4;
  st.shared.u32 [%r5], %r2;
  bar.sync 0;
  setp.ne.u32 %p, %r0, 0;
  @%p bra DONE;
  mov.u32 %r6, 0;
  mov.u32 %r7, 0;
LOOP:
  shl.b32 %r4, %r7, 2;
  add.u32 %r5, %r3, %r4;
  ld.shared.u32 %r8, [%r5];
  add.u32 %r6, %r6, %r8;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p, %r7, %r1;
  @%p bra LOOP;
  st.global.u32 [%rd0], %r6;
DONE:
  ret;
}
)";

}  // namespace

std::string ptx_module(std::string_view rest) {
  std::string text = "\n.version 7.0\n.target sm_70\n.address_size 64\n";
  return text.append(rest);
}

std::string element_kernel(std::string_view name, std::string_view code) {
  std::string text = "\n.visible .entry ";
  text.append(name);
  text.append(R"((.param .u64 data, .param .u32 n, .param .u32 value)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [data];
  ld.param.u32 %r0, [n];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r0;
  @%p bra DONE;
  cvta.to.global.u64 %rd1, %rd0;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd3, %rd1, %rd2;
)");
  text.append(code);
  return text.append("DONE:\n  ret;\n}\n");
}

std::string fill_module(uint32_t offset) {
  return ptx_module(element_kernel("fill", "  add.u32 %r1, %r1, " + std::to_string(offset) +
                                               ";\n  st.global.u32 [%rd3], %r1;\n"));
}

const char* suite_kernels() {
  static const std::string text = ptx_module(
      std::string(kVariables) + element_kernel("fill", "  st.global.u32 [%rd3], %r1;\n") +
      element_kernel("add",
                     "  ld.global.u32 %r6, [%rd3];\n"
                     "  add.u32 %r7, %r6, %r1;\n"
                     "  st.global.u32 [%rd3], %r7;\n") +
      std::string(kOthers));
  return text.c_str();
}

const char* const kKernels = suite_kernels();

}  // namespace vgpu::conformance
