// A test double of a CUDA driver: memory, streams and events on the host's memory, no kernels. The
// files beside it have the rest of what the server calls.
// SPDX-License-Identifier: Apache-2.0
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/doubles/memory_driver.h"

// Work is done at once, but a stream stays busy for MEMORY_DRIVER_BUSY_MS after each piece, so that
// whoever waits really waits. MEMORY_DRIVER_NOVMM=1: no virtual memory management.
// MEMORY_DRIVER_VERSION: what it says its version is. MEMORY_DRIVER_DEVICES: how many it has.

namespace {

using vgpu::testing::Kept;
using vgpu::testing::pointer;

constexpr size_t kDeviceBytes = size_t{1} << 30;
std::atomic<uint64_t> next_handle{1};

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t busy_ns() {
  const char* text = std::getenv("MEMORY_DRIVER_BUSY_MS");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10) * 1'000'000;
}

struct FakeStream {
  std::atomic<uint64_t> busy_until{0};
};
struct FakeEvent {
  std::atomic<uint64_t> ready_at{0};
};
FakeStream legacy_stream;
constexpr int kDevicesMax = 4;
int context_storage[kDevicesMax];
thread_local CUcontext current_context = nullptr;

FakeStream* stream_of(CUstream stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? &legacy_stream
                                                  : reinterpret_cast<FakeStream*>(stream);
}
CUresult worked(CUstream stream) {
  stream_of(stream)->busy_until = now_ns() + busy_ns();
  return CUDA_SUCCESS;
}
CUresult state_at(uint64_t time) { return now_ns() >= time ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult wait_until(uint64_t time) {
  while (now_ns() < time) poll(nullptr, 0, 1);
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuDriverGetVersion(int* version) {
  const char* text = std::getenv("MEMORY_DRIVER_VERSION");
  return *version = text == nullptr ? 13000 : std::atoi(text), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int* count) {
  const char* text = std::getenv("MEMORY_DRIVER_DEVICES");
  return *count = text == nullptr ? 1 : std::atoi(text), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return *device = ordinal, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::snprintf(name, static_cast<size_t>(bytes), "Memory test device");
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  return *bytes = kDeviceBytes, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const bool vmm = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  const auto within = [attribute](CUdevice_attribute first, CUdevice_attribute last) {
    return attribute >= first && attribute <= last;
  };
  const bool array_limit = within(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH,
                                  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS) ||
                           within(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH,
                                  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS) ||
                           within(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
                                  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE) ||
                           within(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH,
                                  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT) ||
                           attribute == CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH;
  if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
    return *value = std::getenv("MEMORY_DRIVER_HMM") != nullptr, CUDA_SUCCESS;
  *value = vmm ? std::getenv("MEMORY_DRIVER_NOVMM") == nullptr : array_limit ? 16384 : 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, 7 + device, sizeof(*uuid));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", 7 + device);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(&context_storage[device]);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxDisablePeerAccess(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return current_context = context, CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  *context = current_context;
  return current_context = nullptr, CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice) {
  *context = current_context = reinterpret_cast<CUcontext>(new int);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  delete reinterpret_cast<int*>(context);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetLimit(size_t* value, CUlimit) { return *value = 4096, CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }

EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  *stream = reinterpret_cast<CUstream>(new FakeStream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  delete stream_of(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamQuery(CUstream stream) { return state_at(stream_of(stream)->busy_until); }
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return wait_until(stream_of(stream)->busy_until);
}
EXPORT CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuEventCreate(CUevent* event, unsigned) {
  return *event = reinterpret_cast<CUevent>(Kept<FakeEvent>::make()), CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) { return Kept<FakeEvent>::destroy(event); }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  reinterpret_cast<FakeEvent*>(event)->ready_at = stream_of(stream)->busy_until.load();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  const uint64_t from = reinterpret_cast<FakeEvent*>(start)->ready_at;
  const uint64_t to = reinterpret_cast<FakeEvent*>(end)->ready_at;
  *milliseconds = static_cast<float>(to - from) / 1e6f;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUevent event) {
  return state_at(reinterpret_cast<FakeEvent*>(event)->ready_at);
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
  return wait_until(reinterpret_cast<FakeEvent*>(event)->ready_at);
}

EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr) {
  if (attribute != CU_POINTER_ATTRIBUTE_IS_MANAGED) return CUDA_ERROR_NOT_SUPPORTED;
  return *static_cast<unsigned*>(data) = 0, CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                              CUmemAllocationGranularity_flags) {
  return *bytes = 2u << 20, CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr hint,
                                    unsigned long long) {
  void* got =
      mmap(pointer(hint), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(got);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  munmap(pointer(address), bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t,
                            const CUmemAllocationProp*, unsigned long long) {
  *handle = next_handle++;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle, unsigned long long) {
  if (offset != 0) return CUDA_ERROR_INVALID_VALUE;
  return mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_UNKNOWN;
}
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  void* got = mmap(pointer(address), bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return got != MAP_FAILED ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
EXPORT CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  void* memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  std::free(pointer(address));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void* memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned) {
  return *address = reinterpret_cast<CUdeviceptr>(memory), CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister_v2(void*, size_t, unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemHostUnregister(void*) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
  std::memcpy(pointer(to), from, bytes);
  return worked(s);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  std::memcpy(to, pointer(from), bytes);
  return worked(s);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  std::memmove(pointer(to), pointer(from), bytes);
  return worked(s);
}
EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                                  size_t bytes, CUstream s) {
  std::memmove(pointer(to), pointer(from), bytes);
  return worked(s);
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
  std::memset(pointer(to), value, count);
  return worked(s);
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s) {
  for (size_t i = 0; i < count; ++i) static_cast<unsigned*>(pointer(to))[i] = value;
  return worked(s);
}
