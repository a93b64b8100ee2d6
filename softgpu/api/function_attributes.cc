// What is known of a kernel without running it.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/function_attributes.h"

#include <algorithm>

#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

constexpr int kRegisterUnit = 256;       // per warp
constexpr int kRegistersPerThread = 16;  // what a kernel has at least
constexpr int kSharedUnit = 128;

int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

// Threads of the largest block that the kernel is written for.
uint64_t threads_declared(const KernelInfo& info) {
  const auto product = [](const uint32_t(&dims)[3]) {
    return static_cast<uint64_t>(std::max(dims[0], 1u)) * std::max(dims[1], 1u) *
           std::max(dims[2], 1u);
  };
  uint64_t most = kThreadsPerBlock;
  if (info.max_threads[0] != 0) most = std::min(most, product(info.max_threads));
  if (info.required_threads[0] != 0) most = std::min(most, product(info.required_threads));
  return most;
}

// Nothing here runs out of registers, so the number that is reported never keeps such a block from
// being launched.
int registers(const KernelInfo& info) {
  const int warps = static_cast<int>((threads_declared(info) + kWarp - 1) / kWarp);
  const int share = kRegistersPerSm / warps / kRegisterUnit * kRegisterUnit / kWarp;
  return std::clamp(static_cast<int>(info.registers), kRegistersPerThread, std::min(share, 255));
}

int cluster_axis(CUfunction_attribute attribute) {
  return static_cast<int>(attribute) - static_cast<int>(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
}

int required_cluster(const KernelInfo& info, const FunctionSettings& settings,
                     CUfunction_attribute attribute) {
  const int axis = cluster_axis(attribute);
  return info.required_cluster[0] != 0 ? static_cast<int>(info.required_cluster[axis])
                                       : settings.cluster[axis].load(std::memory_order_relaxed);
}

int shared_optin_max() { return Driver::instance().device().config().limits.shared_per_block_max; }

}  // namespace

ClusterRules kernel_cluster_rules(const KernelInfo& info, const FunctionSettings& settings,
                                  const DeviceConfig& config) {
  const auto attribute = [&](CUfunction_attribute which) {
    int value = 0;
    (void)function_attribute(info, settings, which, &value);
    return value;
  };
  ClusterRules rules = cluster_rules(attribute, config.limits.major >= 9);
  rules.most = info.max_cluster_blocks;
  return rules;
}

bool demands_cluster(const KernelInfo& info, const FunctionSettings& settings) {
  return info.explicit_cluster || info.required_cluster[0] != 0 ||
         settings.cluster[0].load(std::memory_order_relaxed) != 0;
}

int max_threads(const KernelInfo& info) { return static_cast<int>(threads_declared(info)); }

int dynamic_shared_max(const KernelInfo& info, const FunctionSettings& settings) {
  const int set = settings.dynamic_shared_max.load(std::memory_order_relaxed);
  return set >= 0 ? set : std::max(0, kSharedPerBlock - static_cast<int>(info.static_shared_bytes));
}

int blocks_per_sm(const KernelInfo& info, const CapabilityLimits& limits, int block_threads,
                  size_t dynamic_shared) {
  if (block_threads <= 0 || block_threads > max_threads(info)) return 0;
  const int warps = (block_threads + kWarp - 1) / kWarp;
  const int by_threads = limits.threads_per_sm / (warps * kWarp);
  const int by_registers =
      kRegistersPerSm / (round_up(registers(info) * kWarp, kRegisterUnit) * warps);
  const size_t shared = info.static_shared_bytes + dynamic_shared;
  if (shared > static_cast<size_t>(limits.shared_per_block_max)) return 0;
  const int shared_rounded = round_up(static_cast<int>(shared), kSharedUnit) + kSharedReserved;
  const int by_shared = limits.shared_per_sm / shared_rounded;
  return std::min({limits.blocks_per_sm, by_threads, by_registers, by_shared});
}

CUresult function_attribute(const KernelInfo& info, const FunctionSettings& settings,
                            CUfunction_attribute attribute, int* value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = max_threads(info);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(info.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(info.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = registers(info);
      break;
    // The version of code that runs is that of the PTX it was made from: CUB chooses its policy by
    // it.
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = info.target_sm;
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = dynamic_shared_max(info, settings);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = settings.carveout.load();
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = info.explicit_cluster ? 1 : 0;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = required_cluster(info, settings, attribute);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = settings.non_portable_cluster.load() ? 1 : 0;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = settings.cluster_policy.load();
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_function_attribute(const KernelInfo& info, FunctionSettings& settings,
                                CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > shared_optin_max() - static_cast<int>(info.static_shared_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      settings.dynamic_shared_max.store(value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      settings.carveout.store(value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      if (info.required_cluster[0] != 0) return CUDA_ERROR_NOT_PERMITTED;
      if (value < 0) return CUDA_ERROR_INVALID_VALUE;
      settings.cluster[cluster_axis(attribute)].store(value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      settings.non_portable_cluster.store(value != 0);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
          value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
        return CUDA_ERROR_INVALID_VALUE;
      settings.cluster_policy.store(value);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult param_info(const KernelInfo& info, size_t index, size_t* offset, size_t* bytes) {
  if (offset == nullptr || index >= info.params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = info.params[index].offset;
  if (bytes != nullptr) *bytes = info.params[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::softgpu
