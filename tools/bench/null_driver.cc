// A CUDA driver that does nothing and says success: what is left when it is used is vGPU's own
// cost. SPDX-License-Identifier: Apache-2.0 For measuring only. It has one device and knows one
// kernel, "empty"; copies move no bytes.
#include <cuda.h>
#include <string.h>
#include <sys/mman.h>

namespace {

constexpr size_t kMemoryBytes = size_t{8} << 30;
constexpr size_t kGranularity = size_t{2} << 20;
constexpr int kDriverVersion = 13000;
constexpr char kKernel[] = "empty";
int some_object;  // what every handle points at

template <typename Handle>
CUresult give(Handle* out) {
  *out = reinterpret_cast<Handle>(&some_object);
  return CUDA_SUCCESS;
}

int attribute(CUdevice_attribute name) {
  switch (name) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    default:
      return 0;
  }
}

}  // namespace

#define NULL_CALL(name, ...) \
  extern "C" __attribute__((visibility("default"))) CUresult name(__VA_ARGS__)
// A call with nothing to return.
#define NULL_NOTHING(name, ...) \
  NULL_CALL(name, __VA_ARGS__) { return CUDA_SUCCESS; }

NULL_NOTHING(cuInit, unsigned)
NULL_CALL(cuDriverGetVersion, int* out) { return *out = kDriverVersion, CUDA_SUCCESS; }
NULL_CALL(cuGetErrorName, CUresult, const char** out) { return *out = "error", CUDA_SUCCESS; }
NULL_CALL(cuDeviceGetCount, int* out) { return *out = 1, CUDA_SUCCESS; }
NULL_CALL(cuDeviceGet, CUdevice* out, int) { return *out = 0, CUDA_SUCCESS; }
NULL_CALL(cuDeviceGetName, char* out, int bytes, CUdevice) {
  if (bytes > 0) *out = '\0';
  if (bytes > 8) memcpy(out, "nothing", 8);
  return CUDA_SUCCESS;
}
NULL_CALL(cuDeviceGetUuid_v2, CUuuid* out, CUdevice) { return *out = CUuuid{}, CUDA_SUCCESS; }
NULL_CALL(cuDeviceGetPCIBusId, char* out, int bytes, CUdevice) {
  if (bytes < 13) return CUDA_ERROR_INVALID_VALUE;
  memcpy(out, "0000:00:00.0", 13);
  return CUDA_SUCCESS;
}
NULL_CALL(cuDeviceTotalMem_v2, size_t* out, CUdevice) { return *out = kMemoryBytes, CUDA_SUCCESS; }
NULL_CALL(cuDeviceGetAttribute, int* out, CUdevice_attribute name, CUdevice) {
  return *out = attribute(name), CUDA_SUCCESS;
}

NULL_CALL(cuDevicePrimaryCtxRetain, CUcontext* out, CUdevice) { return give(out); }
NULL_NOTHING(cuDevicePrimaryCtxRelease_v2, CUdevice)
NULL_NOTHING(cuDevicePrimaryCtxReset_v2, CUdevice)
NULL_NOTHING(cuDevicePrimaryCtxSetFlags_v2, CUdevice, unsigned)
NULL_CALL(cuCtxCreate_v2, CUcontext* out, unsigned, CUdevice) { return give(out); }
NULL_NOTHING(cuCtxDestroy_v2, CUcontext)
NULL_NOTHING(cuCtxSetCurrent, CUcontext)
NULL_CALL(cuCtxPopCurrent_v2, CUcontext* out) { return give(out); }
NULL_CALL(cuCtxGetDevice, CUdevice* out) { return *out = 0, CUDA_SUCCESS; }
NULL_CALL(cuCtxGetCurrent, CUcontext* out) { return give(out); }
NULL_NOTHING(cuCtxSynchronize)
NULL_NOTHING(cuCtxSetLimit, CUlimit, size_t)
NULL_CALL(cuCtxGetLimit, size_t* out, CUlimit) { return *out = 1024, CUDA_SUCCESS; }

NULL_CALL(cuStreamCreateWithPriority, CUstream* out, unsigned, int) { return give(out); }
NULL_CALL(cuStreamCreate, CUstream* out, unsigned) { return give(out); }
NULL_NOTHING(cuStreamDestroy_v2, CUstream)
NULL_NOTHING(cuStreamQuery, CUstream)
NULL_NOTHING(cuStreamSynchronize, CUstream)
NULL_NOTHING(cuStreamWaitEvent, CUstream, CUevent, unsigned)
NULL_CALL(cuEventCreate, CUevent* out, unsigned) { return give(out); }
NULL_NOTHING(cuEventDestroy_v2, CUevent)
NULL_NOTHING(cuEventQuery, CUevent)
NULL_NOTHING(cuEventRecord, CUevent, CUstream)
NULL_NOTHING(cuEventRecordWithFlags, CUevent, CUstream, unsigned)
NULL_NOTHING(cuEventSynchronize, CUevent)
NULL_CALL(cuEventElapsedTime_v2, float* out, CUevent, CUevent) { return *out = 0, CUDA_SUCCESS; }

NULL_CALL(cuModuleLoadDataEx, CUmodule* out, const void*, unsigned, CUjit_option*, void**) {
  return give(out);
}
NULL_NOTHING(cuModuleUnload, CUmodule)
NULL_CALL(cuModuleGetFunctionCount, unsigned* out, CUmodule) { return *out = 1, CUDA_SUCCESS; }
NULL_CALL(cuModuleEnumerateFunctions, CUfunction* out, unsigned count, CUmodule) {
  return count == 0 ? CUDA_ERROR_INVALID_VALUE : give(out);
}
NULL_CALL(cuModuleGetGlobal_v2, CUdeviceptr*, size_t*, CUmodule, const char*) {
  return CUDA_ERROR_NOT_FOUND;
}
NULL_CALL(cuLibraryLoadData, CUlibrary* out, const void*, CUjit_option*, void**, unsigned,
          CUlibraryOption*, void**, unsigned) {
  return give(out);
}
NULL_NOTHING(cuLibraryUnload, CUlibrary)
NULL_CALL(cuLibraryGetKernelCount, unsigned* out, CUlibrary) { return *out = 1, CUDA_SUCCESS; }
NULL_CALL(cuLibraryEnumerateKernels, CUkernel* out, unsigned count, CUlibrary) {
  return count == 0 ? CUDA_ERROR_INVALID_VALUE : give(out);
}
NULL_CALL(cuKernelGetFunction, CUfunction* out, CUkernel) { return give(out); }
NULL_CALL(cuLibraryGetGlobal, CUdeviceptr*, size_t*, CUlibrary, const char*) {
  return CUDA_ERROR_NOT_FOUND;
}
NULL_CALL(cuFuncGetName, const char** out, CUfunction) { return *out = kKernel, CUDA_SUCCESS; }
NULL_CALL(cuFuncGetParamInfo, CUfunction, size_t, size_t*, size_t*) {
  return CUDA_ERROR_INVALID_VALUE;  // it has none
}
NULL_CALL(cuFuncGetAttribute, int* out, CUfunction_attribute name, CUfunction) {
  *out = name == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
NULL_NOTHING(cuFuncSetAttribute, CUfunction, CUfunction_attribute, int)
NULL_NOTHING(cuFuncSetCacheConfig, CUfunction, CUfunc_cache)
NULL_NOTHING(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
             unsigned, CUstream, void**, void**)
NULL_NOTHING(cuLaunchKernelEx, const CUlaunchConfig*, CUfunction, void**, void**)

NULL_CALL(cuMemGetAllocationGranularity, size_t* out, const CUmemAllocationProp*,
          CUmemAllocationGranularity_flags) {
  return *out = kGranularity, CUDA_SUCCESS;
}
NULL_CALL(cuMemAddressReserve, CUdeviceptr* out, size_t bytes, size_t, CUdeviceptr hint,
          unsigned long long) {
  void* range = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUdeviceptr>(range);
  return CUDA_SUCCESS;
}
NULL_CALL(cuMemAddressFree, CUdeviceptr address, size_t bytes) {
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}
NULL_CALL(cuMemCreate, CUmemGenericAllocationHandle* out, size_t, const CUmemAllocationProp*,
          unsigned long long) {
  return *out = 1, CUDA_SUCCESS;
}
NULL_NOTHING(cuMemMap, CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
             unsigned long long)
NULL_NOTHING(cuMemUnmap, CUdeviceptr, size_t)
NULL_NOTHING(cuMemRelease, CUmemGenericAllocationHandle)
NULL_NOTHING(cuMemSetAccess, CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)
NULL_CALL(cuMemAlloc_v2, CUdeviceptr*, size_t) { return CUDA_ERROR_NOT_SUPPORTED; }
NULL_NOTHING(cuMemFree_v2, CUdeviceptr)
NULL_NOTHING(cuMemHostRegister_v2, void*, size_t, unsigned)
NULL_NOTHING(cuMemHostUnregister, void*)
NULL_NOTHING(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*, size_t, CUstream)
NULL_NOTHING(cuMemcpyDtoHAsync_v2, void*, CUdeviceptr, size_t, CUstream)
NULL_NOTHING(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)
NULL_NOTHING(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)
NULL_NOTHING(cuMemsetD16Async, CUdeviceptr, unsigned short, size_t, CUstream)
NULL_NOTHING(cuMemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream)

NULL_CALL(cuGraphCreate, CUgraph* out, unsigned) { return give(out); }
NULL_CALL(cuGraphAddKernelNode_v2, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
          const CUDA_KERNEL_NODE_PARAMS*) {
  return give(out);
}
NULL_CALL(cuGraphAddMemcpyNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
          const CUDA_MEMCPY3D*, CUcontext) {
  return give(out);
}
NULL_CALL(cuGraphAddMemsetNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
          const CUDA_MEMSET_NODE_PARAMS*, CUcontext) {
  return give(out);
}
NULL_CALL(cuGraphAddEventRecordNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
          CUevent) {
  return give(out);
}
NULL_CALL(cuGraphAddEventWaitNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t, CUevent) {
  return give(out);
}
NULL_CALL(cuGraphAddEmptyNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t) {
  return give(out);
}
NULL_CALL(cuGraphAddBatchMemOpNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
          const CUDA_BATCH_MEM_OP_NODE_PARAMS*) {
  return give(out);
}
NULL_CALL(cuGraphAddHostNode, CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
          const CUDA_HOST_NODE_PARAMS*) {
  return give(out);
}
NULL_NOTHING(cuGraphKernelNodeSetAttribute, CUgraphNode, CUkernelNodeAttrID,
             const CUkernelNodeAttrValue*)
NULL_CALL(cuGraphInstantiateWithFlags, CUgraphExec* out, CUgraph, unsigned long long) {
  return give(out);
}
NULL_NOTHING(cuGraphLaunch, CUgraphExec, CUstream)
NULL_NOTHING(cuGraphExecDestroy, CUgraphExec)
NULL_NOTHING(cuGraphDestroy, CUgraph)
