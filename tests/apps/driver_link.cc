// The driver's linker: two PTX texts become one module; what does not fit together says so.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "driver_app.h"

namespace {

constexpr char kHead[] = ".version 7.0\n.target sm_70\n.address_size 64\n";
constexpr char kMain[] = R"(
.extern .func (.param .b32 r) twice(.param .b32 x);
.extern .global .align 4 .u32 bias;
.extern .shared .align 16 .b8 room[2048];
.global .align 4 .u32 own = 10;
.visible .entry run(.param .u64 d)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [d];
  mov.u32 %r1, %tid.x;
  mov.u32 %r5, room;
  shl.b32 %r6, %r1, 2;
  add.u32 %r5, %r5, %r6;
  mov.u32 %r7, 100;
  st.shared.u32 [%r5], %r7;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  .param .b32 a;
  .param .b32 b;
  st.param.b32 [a], %r1;
  mov.u64 %rd2, twice;
  kind: .callprototype (.param .b32 r) _ (.param .b32 x);
  call (b), %rd2, (a), kind;
  ld.param.b32 %r2, [b];
  ld.global.u32 %r3, [bias];
  ld.global.u32 %r4, [own];
  add.u32 %r2, %r2, %r3;
  add.u32 %r2, %r2, %r4;
  st.global.u32 [%rd1], %r2;
  ret;
}
)";
constexpr char kOther[] = R"(
.visible .global .align 4 .u32 bias = 1000;
.visible .shared .align 16 .b8 room[2048];
.global .align 4 .u32 own = 1;
.visible .func (.param .b32 r) twice(.param .b32 x)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [x];
  ld.global.u32 %r2, [own];
  shl.b32 %r3, %r1, 2;
  add.u32 %r1, %r1, %r1;
  add.u32 %r1, %r1, %r2;
  mov.u32 %r2, room;
  add.u32 %r3, %r3, %r2;
  ld.shared.u32 %r2, [%r3];
  add.u32 %r1, %r1, %r2;
  st.param.b32 [r], %r1;
  ret;
}
)";

constexpr char kUser[] = R"(
.extern .shared .align 16 .b8 room[2048];
.visible .entry use()
{
  .reg .b32 %r<2>;
  mov.u32 %r1, room;
  st.shared.u32 [%r1], %r1;
  ret;
}
)";
constexpr char kNothing[] = ".visible .entry nothing() { ret; }\n";

struct Log {
  char text[512] = "";
  CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[2] = {text, reinterpret_cast<void*>(sizeof text)};
};

CUresult add(CUlinkState state, const std::string& text, const char* name) {
  const std::string whole = kHead + text;
  return cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(whole.c_str()), whole.size() + 1,
                       name, 0, nullptr, nullptr);
}

bool run_linked() {
  CUlinkState state;
  void* image = nullptr;
  size_t bytes = 0;
  CHECKED(cuLinkCreate(0, nullptr, nullptr, &state));
  CHECKED(add(state, kMain, "main"));
  CHECKED(add(state, kOther, "other"));
  CHECKED(cuLinkComplete(state, &image, &bytes));
  CUmodule module;
  CUfunction function;
  CHECKED(cuModuleLoadData(&module, image));
  CHECKED(cuLinkDestroy(state));
  CHECKED(cuModuleGetFunction(&function, module, "run"));
  CUdeviceptr d;
  CHECKED(cuMemAlloc(&d, 128));
  void* params[] = {&d};
  CHECKED(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  unsigned host[32], wrong = 0;
  CHECKED(cuMemcpyDtoH(host, d, sizeof host));
  for (unsigned i = 0; i < 32; ++i) wrong += host[i] != 2 * i + 1 + 100 + 1000 + 10;
  int shared = 0;  // what both name is there once
  CHECKED(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
  std::printf("linked: %u wrong, image %s, %d bytes of shared memory\n", wrong,
              bytes > 100 ? "there" : "empty", shared);
  return wrong == 0 && bytes > 100 && shared == 2048;
}

// What goes wrong, and the words for it.
bool refuse(const char* what, CUresult want, const char* words, const char* first,
            const char* second) {
  CUlinkState state;
  Log log;
  CHECKED(cuLinkCreate(2, log.options, log.values, &state));
  CUresult result = add(state, first, "first");
  if (result == CUDA_SUCCESS && second != nullptr) result = add(state, second, "second");
  void* image = nullptr;
  size_t bytes = 0;
  if (result == CUDA_SUCCESS) result = cuLinkComplete(state, &image, &bytes);
  std::printf("%s: %d, \"%s\"\n", what, result, log.text);
  CHECKED(cuLinkDestroy(state));
  return result == want && std::strstr(log.text, words) != nullptr;
}

}  // namespace

int main() {
  CUdevice device;
  CUcontext context;
  CHECKED(cuInit(0));
  CHECKED(cuDeviceGet(&device, 0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, device));
  CHECKED(cuCtxSetCurrent(context));
  bool good = run_linked();
  good &= refuse("undefined", CUDA_ERROR_UNKNOWN, "undefined reference to", kMain, nullptr);
  good &= refuse("undefined, shared", CUDA_ERROR_UNKNOWN, "undefined reference to 'room'", kUser,
                 kNothing);
  good &= refuse("twice", CUDA_ERROR_UNKNOWN, "multiple definition of", kOther, kOther);
  good &= refuse("bad text", CUDA_ERROR_INVALID_PTX, "line 5, column 2", "\n %frob;\n", nullptr);
  good &= cuLinkDestroy(reinterpret_cast<CUlinkState>(0x40)) == CUDA_ERROR_INVALID_HANDLE;
  CHECKED(cuDevicePrimaryCtxRelease(device));
  std::printf("driver_link: %s\n", good ? "ok" : "WRONG");
  return good ? 0 : 1;
}
