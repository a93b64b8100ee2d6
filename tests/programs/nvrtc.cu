// NVRTC: CUDA C++ that is compiled while the program runs, found by name expressions; its errors.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <nvrtc.h>

#include <string>

#include "cub_app.h"

namespace {

using app::report;

const char* const kText = R"(
#include <cuda_fp16.h>
template <typename T>
__global__ void scale(T* data, T by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * by;
}
__constant__ int shift = 3;
)";

// PTX for the newest architecture that the compiler knows and the device has.
std::vector<std::string> options() {
  int count = 0, major = 0, minor = 0, arch = 75;
  CHECKED(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECKED(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  nvrtcGetNumSupportedArchs(&count);
  std::vector<int> known(count);
  nvrtcGetSupportedArchs(known.data());
  for (int each : known) {
    if (each <= major * 10 + minor) arch = std::max(arch, each);
  }
  return {"--gpu-architecture=compute_" + std::to_string(arch), "-I" CUDA_INCLUDE};
}

bool compile(const char* text, nvrtcProgram* program, const std::vector<const char*>& names) {
  if (nvrtcCreateProgram(program, text, "scale.cu", 0, nullptr, nullptr) != 0) return false;
  for (const char* name : names) nvrtcAddNameExpression(*program, name);
  std::vector<std::string> texts = options();
  const char* given[] = {texts[0].c_str(), texts[1].c_str()};
  return nvrtcCompileProgram(*program, 2, given) == NVRTC_SUCCESS;
}

std::string ptx_of(nvrtcProgram program) {
  size_t bytes = 0;
  nvrtcGetPTXSize(program, &bytes);
  std::string ptx(bytes, '\0');
  nvrtcGetPTX(program, ptx.data());
  return ptx;
}

template <typename T>
bool check_scale(CUmodule module, nvrtcProgram program, const char* name) {
  constexpr int kCount = 1000;
  const char* lowered = nullptr;
  CUfunction kernel = nullptr;
  bool good = nvrtcGetLoweredName(program, name, &lowered) == NVRTC_SUCCESS &&
              cuModuleGetFunction(&kernel, module, lowered) == CUDA_SUCCESS;
  std::vector<T> host(kCount), want(kCount);
  for (int i = 0; i < kCount; ++i) host[i] = static_cast<T>(i), want[i] = static_cast<T>(3 * i);
  app::Array<T> data(host);
  T* at = data.get();
  T by = 3;
  int n = kCount;
  void* arguments[] = {&at, &by, &n};
  good &= cuLaunchKernel(kernel, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments,
                         nullptr) == CUDA_SUCCESS;
  return report(name, good && data.read() == want);
}

}  // namespace

int main() {
  CHECKED(cudaFree(nullptr));  // the primary context
  nvrtcProgram program = nullptr, broken = nullptr;
  bool good = report("compile", compile(kText, &program, {"scale<float>", "scale<int>", "&shift"}));
  CUmodule module = nullptr;
  good &= report("load", cuModuleLoadData(&module, ptx_of(program).c_str()) == CUDA_SUCCESS);
  good &= check_scale<float>(module, program, "scale<float>");
  good &= check_scale<int>(module, program, "scale<int>");
  const char* lowered = nullptr;
  CUdeviceptr shift = 0;
  int value = 0;
  good &= report("constant",
                 nvrtcGetLoweredName(program, "&shift", &lowered) == NVRTC_SUCCESS &&
                     cuModuleGetGlobal(&shift, nullptr, module, lowered) == CUDA_SUCCESS &&
                     cuMemcpyDtoH(&value, shift, sizeof value) == CUDA_SUCCESS && value == 3);
  good &= report("error", !compile("__global__ void f( {", &broken, {}));
  nvrtcDestroyProgram(&program);
  nvrtcDestroyProgram(&broken);
  return app::finish("nvrtc", good);
}
