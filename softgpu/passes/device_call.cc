// Names of the device runtime's calls.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/device_call.h"

#include <map>

namespace vgpu::softgpu {
namespace {

// Longer ones first: what remains is looked up whole.
constexpr std::string_view kPrefixes[] = {"__cuda_syscall_cnpv2", "__cuda_syscall_cnp", "cnp"};
constexpr std::string_view kGroups = "__cuda_syscall_CGS_";

const std::map<std::string_view, DeviceCallInfo>& table() {
  using enum DeviceCall;
  static const std::map<std::string_view, DeviceCallInfo> kTable = {
      {"GetLastError", {kGetLastError, 0}},
      {"SetLastError", {kSetLastError, 1}},
      {"GetParameterBuffer", {kGetParameterBuffer, 2}},
      {"GetParameterBufferV2", {kGetParameterBufferV2, 4}},
      {"LaunchDevice", {kLaunchDevice, 6}},
      {"LaunchDeviceV2", {kLaunchDeviceV2, 2}},
      {"StreamCreate", {kStreamCreate, 2}},
      {"StreamDestroy", {kStreamDestroy, 1}},
      {"StreamWaitEvent", {kStreamWaitEvent, 3}},
      {"EventCreate", {kEventCreate, 2}},
      {"EventRecord", {kEventRecord, 2}},
      {"EventDestroy", {kEventDestroy, 1}},
      {"GetLimit", {kGetLimit, 2}},
      {"GetDeviceCount", {kGetDeviceCount, 1}},
      {"GetDevice", {kGetDevice, 1}},
      {"DeviceGetAttribute", {kDeviceGetAttribute, 3}},
      {"FuncGetAttribute", {kFuncGetAttribute, 3}},
      {"GetCacheConfig", {kGetCacheConfig, 1}},
      {"GetSharedMemConfig", {kGetSharedMemConfig, 1}},
      {"MaxActiveBlocksPerMultiprocessor", {kResidentBlocks, 4}},
      {"MaxActiveBlocksPerMultiprocessorWithFlags", {kResidentBlocksWithFlags, 5}},
  };
  return kTable;
}

}  // namespace

std::optional<DeviceCallInfo> device_call(std::string_view name) {
  if (name.starts_with(kGroups)) return DeviceCallInfo{DeviceCall::kUnserved, 0};
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const auto found = table().find(name.substr(prefix.size()));
    if (found != table().end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace vgpu::softgpu
