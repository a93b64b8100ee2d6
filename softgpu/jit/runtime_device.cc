// The device runtime's calls, lane by lane.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/lane_memory.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/passes/device_call.h"

namespace vgpu::softgpu {
namespace {

// The arguments of one lane: places, in the order of the declaration.
class Arguments {
 public:
  Arguments(const uint64_t* const* places, int lane) : places_(places), lane_(lane) {}
  uint32_t word(int i) const { return load<uint32_t>(places_[i][lane_]); }
  uint64_t wide(int i) const { return load<uint64_t>(places_[i][lane_]); }
  Dim3 extent(int i) const { return load<Dim3>(places_[i][lane_]); }

 private:
  const uint64_t* const* places_;
  int lane_;
};

// Writes an answer where the kernel wants it.
template <typename T>
CnpError answer(CnpError error, uint64_t address, T value) {
  if (address == 0) return CnpError::kInvalidValue;
  if (error == CnpError::kSuccess) store(address, value);
  return error;
}

CnpError answer_attribute(KernelHost& host, const Arguments& a) {
  // As cudaFuncAttributes has them: these three are of type size_t.
  constexpr uint32_t kSharedBytes = 1, kLocalBytes = 3;
  int value = 0;
  const CnpError error = host.function_attribute(a.wide(2), a.word(1), &value);
  if (a.word(1) >= kSharedBytes && a.word(1) <= kLocalBytes)
    return answer(error, a.wide(0), static_cast<uint64_t>(value));
  return answer(error, a.wide(0), value);
}

CnpError query(DeviceCall call, KernelHost& host, const Arguments& a) {
  int value = 0;
  uint64_t wide = 0;
  CnpError error = CnpError::kSuccess;
  switch (call) {
    case DeviceCall::kGetLimit:
      error = host.limit(a.word(1), &wide);
      return answer(error, a.wide(0), wide);
    case DeviceCall::kGetDeviceCount:
      return answer(error, a.wide(0), host.device_count());
    case DeviceCall::kGetDevice:
      return answer(error, a.wide(0), host.device());
    case DeviceCall::kDeviceGetAttribute:
      error = host.device_attribute(a.word(1), static_cast<int>(a.word(2)), &value);
      return answer(error, a.wide(0), value);
    case DeviceCall::kFuncGetAttribute:
      return answer_attribute(host, a);
    case DeviceCall::kGetCacheConfig:
      return answer(error, a.wide(0), host.cache_config());
    case DeviceCall::kGetSharedMemConfig:
      return answer(error, a.wide(0), host.shared_config());
    case DeviceCall::kResidentBlocks:
    case DeviceCall::kResidentBlocksWithFlags:
      error = host.resident_blocks(a.wide(1), static_cast<int>(a.word(2)), a.wide(3), &value);
      return answer(error, a.wide(0), value);
    default:
      return CnpError::kInvalidValue;
  }
}

CnpError act(DeviceCall call, DeviceRuntime& runtime, uint32_t thread, const Arguments& a) {
  uint64_t handle = 0;
  CnpError error = CnpError::kSuccess;
  switch (call) {
    case DeviceCall::kLaunchDevice: {
      const ChildShape shape = {load<Dim3>(a.wide(2)), load<Dim3>(a.wide(3)), a.word(4)};
      return runtime.launch_plain(thread, a.wide(0), a.wide(1), shape, a.wide(5));
    }
    case DeviceCall::kLaunchDeviceV2:
      return runtime.launch(thread, a.wide(0), a.wide(1));
    case DeviceCall::kStreamCreate:
      error = runtime.create_stream(a.word(1), &handle);
      return answer(error, a.wide(0), handle);
    case DeviceCall::kStreamDestroy:
      return runtime.destroy_stream(a.wide(0));
    case DeviceCall::kStreamWaitEvent:
      return runtime.wait(thread, a.wide(0), a.wide(1));
    case DeviceCall::kEventCreate:
      error = runtime.create_event(a.word(1), &handle);
      return answer(error, a.wide(0), handle);
    case DeviceCall::kEventRecord:
      return runtime.record(thread, a.wide(0), a.wide(1));
    case DeviceCall::kEventDestroy:
      return runtime.destroy_event(a.wide(0));
    default:
      return runtime.host() == nullptr ? CnpError::kInvalidValue : query(call, *runtime.host(), a);
  }
}

void call_lane(DeviceCall call, DeviceRuntime& runtime, uint32_t thread, const Arguments& a,
               uint64_t result) {
  switch (call) {
    case DeviceCall::kGetLastError:
      return store(result, runtime.last_error(thread));
    case DeviceCall::kSetLastError:  // gives back what it is given: the runtime returns that
      runtime.set_last_error(thread, a.word(0));
      return store(result, a.word(0));
    case DeviceCall::kGetParameterBuffer:
      return store(result, runtime.plain_buffer(a.word(0), a.word(1)));
    case DeviceCall::kGetParameterBufferV2: {
      const ChildShape shape = {a.extent(1), a.extent(2), a.word(3)};
      return store(result, runtime.parameter_buffer(thread, a.wide(0), shape));
    }
    default:
      return store(result, static_cast<uint32_t>(act(call, runtime, thread, a)));
  }
}

void device_calls(WarpContext* warp, uint32_t mask, uint32_t call, const uint64_t* const* places,
                  const uint64_t* result) {
  DeviceRuntime& runtime = warp->services->device_runtime();
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint32_t thread = warp->warp_id * kWarpLanes + static_cast<uint32_t>(lane);
    call_lane(static_cast<DeviceCall>(call), runtime, thread, Arguments(places, lane),
              result[lane]);
  }
}

}  // namespace

std::span<const RuntimeSymbol> runtime_device_symbols() {
  static const RuntimeSymbol kSymbols[] = {
      {"sg_device_calls", reinterpret_cast<void*>(device_calls)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
