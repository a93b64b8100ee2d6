// The functions that NVIDIA's device runtime (libcudadevrt) leaves to the driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vgpu::softgpu {

// Named as in the runtime's PTX behind its prefixes; arguments as declared there.
enum class DeviceCall : uint32_t {
  kGetLastError,
  kSetLastError,
  kGetParameterBuffer,    // alignment, bytes
  kGetParameterBufferV2,  // function, grid, block, bytes of dynamic shared memory
  kLaunchDevice,          // function, buffer, &grid, &block, bytes of shared memory, stream
  kLaunchDeviceV2,        // buffer, stream
  kStreamCreate,          // &stream, flags
  kStreamDestroy,
  kStreamWaitEvent,  // stream, event, flags
  kEventCreate,      // &event, flags
  kEventRecord,      // event, stream
  kEventDestroy,
  kGetLimit,  // &value, limit
  kGetDeviceCount,
  kGetDevice,
  kDeviceGetAttribute,  // &value, attribute, device
  kFuncGetAttribute,    // &value, attribute, function
  kGetCacheConfig,
  kGetSharedMemConfig,
  kResidentBlocks,           // &blocks, function, threads, bytes of shared memory
  kResidentBlocksWithFlags,  // the same, flags
  kUnserved,                 // groups across blocks (`__cuda_syscall_CGS_…`)
};

inline constexpr size_t kDeviceCallArgumentsMax = 6;

struct DeviceCallInfo {
  DeviceCall call;
  size_t arguments;
};

// Both sets of names, of the runtime's first and second version, mean the same calls.
std::optional<DeviceCallInfo> device_call(std::string_view name);

}  // namespace vgpu::softgpu
