// Bringing a thread into the state that a row asks for.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "table.h"
#include "tests/conformance/kernel_text.h"

namespace vgpu::fidelity {
namespace {

constexpr size_t kFreedBytes = size_t{48} << 20;

// The first call that fails names the problem.
#define NEED(call) \
  if (w.cu->call != CUDA_SUCCESS) return #call " failed"

const char* make_lost_handles(World& w) {
  NEED(cuStreamCreate(&w.stale_stream, CU_STREAM_NON_BLOCKING));
  NEED(cuStreamDestroy_v2(w.stale_stream));
  NEED(cuEventCreate(&w.stale_event, 0));
  NEED(cuEventDestroy_v2(w.stale_event));
  NEED(cuModuleLoadData(&w.unloaded, conformance::kKernels));
  NEED(cuModuleGetFunction(&w.lost_function, w.unloaded, "fill"));
  NEED(cuModuleUnload(w.unloaded));
  NEED(cuLibraryLoadData(&w.lost_library, conformance::kKernels, nullptr, nullptr, 0, nullptr,
                         nullptr, 0));
  NEED(cuLibraryGetKernel(&w.lost_kernel, w.lost_library, "fill"));
  NEED(cuLibraryUnload(w.lost_library));
  return nullptr;
}

const char* make_other_contexts(World& w) {
  NEED(cuCtxCreate_v2(&w.other, 0, w.device));
  NEED(cuStreamCreate(&w.other_stream, CU_STREAM_NON_BLOCKING));
  NEED(cuEventCreate(&w.other_event, 0));
  NEED(cuModuleLoadData(&w.other_module, conformance::kKernels));
  NEED(cuModuleGetFunction(&w.other_function, w.other_module, "fill"));
  NEED(cuCtxPopCurrent_v2(nullptr));
  NEED(cuCtxCreate_v2(&w.destroyed, 0, w.device));
  NEED(cuCtxDestroy_v2(w.destroyed));
  NEED(cuCtxSetCurrent(w.context));
  // Last, and of a size that no row asks for: the address stays free.
  NEED(cuMemAlloc_v2(&w.freed, kFreedBytes));
  NEED(cuMemFree_v2(w.freed));
  return nullptr;
}

const char* make_objects(World& w) {
  NEED(cuModuleLoadData(&w.module, conformance::kKernels));
  NEED(cuModuleGetFunction(&w.fill, w.module, "fill"));
  NEED(cuModuleGetFunction(&w.poke, w.module, "poke"));
  NEED(cuModuleGetFunction(&w.sum, w.module, "sum"));
  NEED(cuLibraryLoadData(&w.library, conformance::kKernels, nullptr, nullptr, 0, nullptr, nullptr,
                         0));
  NEED(cuLibraryGetKernel(&w.kernel, w.library, "fill"));
  NEED(cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
  NEED(cuEventCreate(&w.event, 0));
  NEED(cuEventCreate(&w.recorded, 0));
  NEED(cuEventCreate(&w.untimed, CU_EVENT_DISABLE_TIMING));
  NEED(cuMemAlloc_v2(&w.memory, World::kBytes));
  NEED(cuMemHostAlloc(&w.pinned, World::kBytes, 0));
  w.pageable.resize(3 * World::kBytes);
  const auto page = (reinterpret_cast<uintptr_t>(w.pageable.data()) + World::kBytes + 4095) & ~4095;
  w.registered = reinterpret_cast<void*>(page);
  NEED(cuMemHostRegister_v2(w.registered, 8192, CU_MEMHOSTREGISTER_PORTABLE));
  NEED(cuEventRecord(w.recorded, w.stream));
  NEED(cuEventRecord(w.untimed, w.stream));
  NEED(cuStreamSynchronize(w.stream));
  return nullptr;
}

const char* make_ready(World& w) {
  NEED(cuDevicePrimaryCtxRetain(&w.context, w.device));
  NEED(cuCtxSetCurrent(w.context));
  if (const char* problem = make_lost_handles(w)) return problem;
  if (const char* problem = make_objects(w)) return problem;
  return make_other_contexts(w);
}

const char* make_inactive(World& w) {
  NEED(cuDevicePrimaryCtxRetain(&w.context, w.device));
  NEED(cuDevicePrimaryCtxRelease_v2(w.device));
  NEED(cuCtxSetCurrent(w.context));
  return nullptr;
}

const char* make_dead(World& w) {
  NEED(cuDevicePrimaryCtxRetain(&w.context, w.device));
  NEED(cuCtxCreate_v2(&w.destroyed, 0, w.device));
  NEED(cuCtxPopCurrent_v2(nullptr));
  NEED(cuCtxPushCurrent_v2(w.destroyed));
  NEED(cuCtxPushCurrent_v2(w.context));
  NEED(cuCtxDestroy_v2(w.destroyed));
  NEED(cuCtxPopCurrent_v2(nullptr));
  return nullptr;
}

const char* make_fault(World& w) {
  if (const char* problem = make_ready(w)) return problem;
  CUdeviceptr nowhere = 0x40;
  void* params[] = {&nowhere};
  NEED(cuLaunchKernel(w.poke, 1, 1, 1, 1, 1, 1, 0, w.stream, params, nullptr));
  if (w.cu->cuStreamSynchronize(w.stream) != kIllegal) return "the kernel did not fault";
  return nullptr;
}

#undef NEED

}  // namespace

int World::device_attribute(CUdevice_attribute which) const {
  int value = 0;
  return cu->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

CUresult World::launch(CUfunction function, CUstream on, unsigned grid, unsigned block,
                       unsigned shared_bytes) const {
  CUdeviceptr out = memory;
  uint32_t n = 0, value = 0;
  void* params[] = {&out, &n, &value};
  return cu->cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared_bytes, on, params, nullptr);
}

const char* enter_state(State state, World* world) {
  if (state == kFresh) return nullptr;
  if (world->cu->cuInit(0) != CUDA_SUCCESS) return "cuInit failed";
  if (world->cu->cuDeviceGet(&world->device, 0) != CUDA_SUCCESS) return "cuDeviceGet failed";
  switch (state) {
    case kNoContext:
      return nullptr;
    case kInactive:
      return make_inactive(*world);
    case kDead:
      return make_dead(*world);
    case kFault:
      return make_fault(*world);
    default:
      return make_ready(*world);  // the caller of kForked forks afterwards
  }
}

const char* state_name(State state) {
  constexpr const char* kNames[kStates] = {"fresh", "no context", "ready", "inactive",
                                           "dead",  "fault",      "forked"};
  return kNames[state];
}

std::span<const Family> families() {
  static const Family kAll[] = {
      {"init", kInitRows},
      {"error", kErrorRows},
      {"device", kDeviceRows},
      {"context", kContextRows},
      {"memory", kMemoryRows},
      {"host_memory", kHostRows},
      {"memcpy", kMemcpyRows},
      {"memset", kMemsetRows},
      {"stream", kStreamRows},
      {"event", kEventRows},
      {"module", kModuleRows},
      {"library", kLibraryRows},
      {"launch", kLaunchRows},
      {"pointer", kPointerRows},
      {"occupancy", kOccupancyRows},
      {"mempool", kMempoolRows},
      {"managed", kManagedRows},
      {"graph", kGraphRows},
      {"capture", kCaptureRows},
      {"conditional", kConditionalRows},
      {"vmm", kVmmRows},
      {"ipc", kIpcRows},
      {"link", kLinkRows},
      {"peer", kPeerRows},
      {"tensor", kTensorRows},
      {"logs", kLogsRows},
      {"green", kGreenRows},
  };
  return kAll;
}

}  // namespace vgpu::fidelity
