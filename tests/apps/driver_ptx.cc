// A driver-API program with its kernel as PTX text; linked with -lcuda, without the runtime.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstdio>
#include <vector>

#include "driver_app.h"

namespace {

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 factor = 3;
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd0, [x];
  ld.param.u64 %rd1, [y];
  ld.param.f32 %f0, [a];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p, %r4, %r0;
  @%p bra DONE;
  ld.global.u32 %r5, [factor];
  cvt.rn.f32.u32 %f1, %r5;
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r4, 4;
  add.u64 %rd3, %rd0, %rd2;
  add.u64 %rd4, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  ld.global.f32 %f3, [%rd4];
  mul.rn.f32 %f4, %f0, %f2;
  mul.rn.f32 %f4, %f4, %f1;
  add.rn.f32 %f5, %f4, %f3;
  st.global.f32 [%rd4], %f5;
DONE:
  ret;
}
)";

}  // namespace

int main() {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CHECKED(cuInit(0));
  CHECKED(cuDeviceGet(&device, 0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, device));
  CHECKED(cuCtxSetCurrent(context));
  CHECKED(cuModuleLoadData(&module, kPtx));
  CHECKED(cuModuleGetFunction(&function, module, "saxpy"));
  const CUresult missing = cuModuleGetFunction(&function, module, "nothing");
  CHECKED(cuModuleGetFunction(&function, module, "saxpy"));
  CUdeviceptr factor = 0;
  size_t factor_bytes = 0;
  CHECKED(cuModuleGetGlobal(&factor, &factor_bytes, module, "factor"));
  unsigned n = 4099;
  std::vector<float> x(n), y(n);
  for (unsigned i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 100);
    y[i] = static_cast<float>(i % 17);
  }
  const size_t bytes = n * sizeof(float);
  CUdeviceptr device_x, device_y;
  CHECKED(cuMemAlloc(&device_x, bytes));
  CHECKED(cuMemAlloc(&device_y, bytes));
  CHECKED(cuMemcpyHtoD(device_x, x.data(), bytes));
  CHECKED(cuMemcpyHtoD(device_y, y.data(), bytes));
  float a = 0.5F;
  void* params[] = {&device_x, &device_y, &a, &n};
  CHECKED(cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, params, nullptr));
  const unsigned five = 5;
  CHECKED(cuMemcpyHtoD(factor, &five, sizeof(five)));
  CHECKED(cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, params, nullptr));
  std::vector<float> result(n);
  CHECKED(cuMemcpyDtoH(result.data(), device_y, bytes));
  unsigned wrong = 0;
  for (unsigned i = 0; i < n; ++i) wrong += result[i] != y[i] + 1.5F * x[i] + 2.5F * x[i];
  CHECKED(cuMemFree(device_x));
  CHECKED(cuMemFree(device_y));
  CHECKED(cuModuleUnload(module));
  CHECKED(cuDevicePrimaryCtxRelease(device));
  const bool good = wrong == 0 && missing == CUDA_ERROR_NOT_FOUND && factor_bytes == 4;
  std::printf("n %u, wrong %u, missing function %d, global of %zu bytes\n", n, wrong, missing,
              factor_bytes);
  std::printf("driver_ptx: %s\n", good ? "ok" : "WRONG");
  return good ? 0 : 1;
}
