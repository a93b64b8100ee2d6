// What the driver API answers to wrong calls: the codes that NVIDIA documents, at once and not
// sticky. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstdio>
#include <cstring>

namespace {

int faults = 0;

void expect(const char* call, CUresult got, CUresult want) {
  if (got == want) return;
  std::printf("%s: %d, expected %d\n", call, static_cast<int>(got), static_cast<int>(want));
  ++faults;
}
#define EXPECT(call, want) expect(#call, call, want)

constexpr CUresult kOk = CUDA_SUCCESS, kValue = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE, kContext = CUDA_ERROR_INVALID_CONTEXT;
constexpr char kPtx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.global .u32 g;\n"
    ".visible .entry e(.param .u64 a){ret;}\n";

void before_a_context() {
  int count;
  CUdeviceptr memory;
  CUcontext context;
  EXPECT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT(cuMemAlloc(&memory, 1), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT(cuInit(1), kValue);
  EXPECT(cuInit(0), kOk);
  EXPECT(cuMemAlloc(&memory, 1), kContext);
  EXPECT(cuCtxGetCurrent(&context), kOk);
  if (context != nullptr) ++faults;
  EXPECT(cuCtxSynchronize(), kContext);
  CUdevice device;
  EXPECT(cuDeviceGet(&device, 7), CUDA_ERROR_INVALID_DEVICE);
  EXPECT(cuDeviceGetCount(nullptr), kValue);
}

void memory_and_copies() {
  CUdeviceptr p, q;
  size_t a, b;
  char buffer[4096] = {};
  EXPECT(cuMemAlloc(&p, 0), kValue);
  EXPECT(cuMemAlloc(nullptr, 1), kValue);
  EXPECT(cuMemAlloc(&q, size_t{1} << 45), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(cuMemAlloc(&p, 4096), kOk);
  EXPECT(cuMemGetInfo(nullptr, nullptr), kOk);
  EXPECT(cuMemGetInfo(&a, nullptr), kOk);
  EXPECT(cuMemGetInfo(nullptr, &b), kOk);
  EXPECT(cuMemcpyHtoD(p, buffer, 4096), kOk);
  EXPECT(cuMemcpyHtoD(p, buffer, 0), kOk);
  EXPECT(cuMemcpyHtoD(0x1234, buffer, 4), kValue);
  EXPECT(cuMemsetD32(p + 2, 1, 1), kValue);
  EXPECT(cuMemsetD8(p, 3, 4096), kOk);
  EXPECT(cuMemcpyDtoH(buffer, p, 4096), kOk);
  if (buffer[4095] != 3) ++faults;
  EXPECT(cuMemFree(p + 8), kValue);
  EXPECT(cuMemFree(p), kOk);
  EXPECT(cuMemFree(p), kValue);
  EXPECT(cuMemFree(0), kOk);
}

void streams_and_events() {
  CUstream stream;
  CUevent event;
  float milliseconds;
  EXPECT(cuStreamCreate(&stream, 4), kValue);
  EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), kOk);
  EXPECT(cuStreamDestroy(stream), kOk);
  EXPECT(cuStreamSynchronize(stream), kHandle);
  EXPECT(cuEventCreate(&event, 0), kOk);
  EXPECT(cuEventQuery(event), kOk);
  EXPECT(cuEventElapsedTime(&milliseconds, event, event), kHandle);
  EXPECT(cuEventRecord(event, nullptr), kOk);
  EXPECT(cuEventSynchronize(event), kOk);
  EXPECT(cuEventElapsedTime(&milliseconds, event, event), kOk);
  EXPECT(cuEventDestroy(event), kOk);
}

void modules_and_launches() {
  CUmodule module;
  CUfunction function;
  CUdeviceptr global, argument = 0;
  size_t bytes, size = 8;
  void* params[] = {&argument};
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &argument, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT(cuModuleLoadData(&module, kPtx), kOk);
  EXPECT(cuModuleGetFunction(&function, module, "missing"), CUDA_ERROR_NOT_FOUND);
  EXPECT(cuModuleGetFunction(&function, module, "e"), kOk);
  EXPECT(cuModuleGetGlobal(nullptr, nullptr, module, "g"), kOk);
  EXPECT(cuModuleGetGlobal(&global, nullptr, module, "g"), kOk);
  EXPECT(cuModuleGetGlobal(nullptr, &bytes, module, "g"), kOk);
  EXPECT(cuModuleGetGlobal(&global, &bytes, module, "missing"), CUDA_ERROR_NOT_FOUND);
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), kOk);
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), kOk);
  EXPECT(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), kValue);
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, params, nullptr), kValue);
  EXPECT(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), kHandle);
  EXPECT(cuCtxSynchronize(), kOk);
  EXPECT(cuModuleUnload(module), kOk);
}

}  // namespace

int main() {
  before_a_context();
  CUdevice device;
  CUcontext context;
  EXPECT(cuDeviceGet(&device, 0), kOk);
  EXPECT(cuDevicePrimaryCtxRetain(&context, device), kOk);
  EXPECT(cuCtxSetCurrent(context), kOk);
  memory_and_copies();
  streams_and_events();
  modules_and_launches();
  EXPECT(cuCtxPushCurrent(nullptr), kContext);
  std::printf("driver_errors: %s\n", faults == 0 ? "ok" : "failed");
  return faults == 0 ? 0 : 1;
}
