// The few driver functions that the bench child calls, found as any program finds them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_DRIVER_H_
#define VGPU_TOOLS_BENCH_DRIVER_H_

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace vgpu::bench {

// PTX of a kernel that does nothing.
inline constexpr char kEmptyKernel[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n";

struct Driver {
  CUresult (*cuInit)(unsigned) = nullptr;
  CUresult (*cuDeviceGet)(CUdevice*, int) = nullptr;
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*cuCtxSetCurrent)(CUcontext) = nullptr;
  CUresult (*cuCtxSynchronize)() = nullptr;
  CUresult (*cuCtxSetLimit)(CUlimit, size_t) = nullptr;
  CUresult (*cuModuleLoadData)(CUmodule*, const void*) = nullptr;
  CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char*) = nullptr;
  CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void**, void**) = nullptr;
  CUresult (*cuMemAlloc)(CUdeviceptr*, size_t) = nullptr;
  CUresult (*cuMemFree)(CUdeviceptr) = nullptr;
  CUresult (*cuMemcpyHtoD)(CUdeviceptr, const void*, size_t) = nullptr;
  CUresult (*cuMemcpyDtoH)(void*, CUdeviceptr, size_t) = nullptr;
  CUresult (*cuGraphCreate)(CUgraph*, unsigned) = nullptr;
  CUresult (*cuGraphAddKernelNode)(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                                   const CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*cuGraphInstantiate)(CUgraphExec*, CUgraph, unsigned long long) = nullptr;
  CUresult (*cuGraphLaunch)(CUgraphExec, CUstream) = nullptr;
  CUfunction empty = nullptr;

  // Says on stderr what is missing.
  bool load() {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return false;
    }
    return find(library, "cuInit", &cuInit) && find(library, "cuDeviceGet", &cuDeviceGet) &&
           find(library, "cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain) &&
           find(library, "cuCtxSetCurrent", &cuCtxSetCurrent) &&
           find(library, "cuCtxSynchronize", &cuCtxSynchronize) &&
           find(library, "cuCtxSetLimit", &cuCtxSetLimit) &&
           find(library, "cuModuleLoadData", &cuModuleLoadData) &&
           find(library, "cuModuleGetFunction", &cuModuleGetFunction) &&
           find(library, "cuLaunchKernel", &cuLaunchKernel) &&
           find(library, "cuMemAlloc_v2", &cuMemAlloc) &&
           find(library, "cuMemFree_v2", &cuMemFree) &&
           find(library, "cuMemcpyHtoD_v2", &cuMemcpyHtoD) &&
           find(library, "cuMemcpyDtoH_v2", &cuMemcpyDtoH) &&
           find(library, "cuGraphCreate", &cuGraphCreate) &&
           find(library, "cuGraphAddKernelNode_v2", &cuGraphAddKernelNode) &&
           find(library, "cuGraphInstantiateWithFlags", &cuGraphInstantiate) &&
           find(library, "cuGraphLaunch", &cuGraphLaunch);
  }

  CUresult launch_empty() const {
    return cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  }

  // Ends the program when a call failed: a figure of a failed call would be worth nothing.
  void check(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return;
    std::fprintf(stderr, "%s gives %d\n", what, static_cast<int>(result));
    std::exit(1);
  }

  void* library = nullptr;

  // One more function of the driver.
  template <typename F>
  static bool find(void* library, const char* name, F** function) {
    *function = reinterpret_cast<F*>(dlsym(library, name));
    if (*function == nullptr) std::fprintf(stderr, "the driver has no %s\n", name);
    return *function != nullptr;
  }
};

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_DRIVER_H_
