// Checking and packing launches.
// SPDX-License-Identifier: Apache-2.0
#include "shim/kernel_launch.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>
#include <vector>

#include "driver_functions.h"
#include "shim/device.h"

namespace vgpu::shim {
namespace {

// Limits that never change, read once from the snapshot of each device.
struct ShapeLimits {
  uint32_t grid[3], block[3], threads;
  uint64_t shared;
  bool clusters;
};

ShapeLimits read_limits(const protocol::DeviceSnapshot& snapshot) {
  const auto get = [&](CUdevice_attribute which) {
    return static_cast<uint32_t>(attribute(snapshot, which));
  };
  return {{get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
           get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
          {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
           get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
          get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
          get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
          get(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0};
}

const ShapeLimits& limits_of(Session& session, CUdevice device) {
  static const std::vector<ShapeLimits> limits = [&] {
    std::vector<ShapeLimits> all;
    for (const auto& snapshot : session.hello().devices) all.push_back(read_limits(snapshot));
    return all;
  }();
  return limits[static_cast<size_t>(device)];
}

CUresult check_limits(const ShapeLimits& limits, const Kernel& kernel, const Shape& shape) {
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] - 1 >= limits.grid[i] || shape.block[i] - 1 >= limits.block[i])
      return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (threads > limits.threads) return CUDA_ERROR_INVALID_VALUE;
  const auto kernel_threads =
      static_cast<uint32_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (kernel_threads != 0 && threads > kernel_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (shape.shared_bytes != 0) {
    const auto fixed = static_cast<uint64_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    const auto opted =
        static_cast<uint64_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
    const uint64_t most = limits.shared > fixed + opted ? limits.shared : fixed + opted;
    if (fixed + shape.shared_bytes > most) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Most launches have to do with clusters neither by their kernel nor by their attributes.
bool may_have_clusters(const Kernel& kernel, const Shape& shape) {
  return (kernel.attribute(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) |
          kernel.attribute(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET)) != 0 ||
         shape.cluster.named();
}

CUresult check_cluster(const ShapeLimits& limits, const Kernel& kernel, const Shape& shape,
                       ClusterSize* chosen) {
  if (!may_have_clusters(kernel, shape)) [[likely]]
    return CUDA_SUCCESS;
  ClusterRules rules = kernel_cluster_rules(kernel, limits.clusters);
  if (shape.cluster_later) rules.must_be_set = false;
  return choose_cluster(rules, shape.grid, shape.cluster, chosen);
}

// All blocks of a cooperative grid must be resident at once. `unit`: blocks of a cluster; `sms`: on
// so many, 0 = on all.
CUresult check_cooperative(CUfunction function, const Shape& shape, uint64_t unit, uint32_t sms) {
  int per_multiprocessor = 0, multiprocessors = static_cast<int>(sms);
  CUdevice device = 0;
  const int threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]);
  CUresult r = vgpu::driver::cuCtxGetDevice(&device);
  if (r == CUDA_SUCCESS && sms == 0) {
    r = vgpu::driver::cuDeviceGetAttribute(&multiprocessors,
                                           CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  }
  if (r == CUDA_SUCCESS) {
    r = vgpu::driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, function,
                                                                  threads, shape.shared_bytes);
  }
  if (r != CUDA_SUCCESS) return r;
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const uint64_t most = active_clusters(per_multiprocessor, multiprocessors, unit) * unit;
  return blocks > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

// The packed buffer that `extra` names.
CUresult read_extra(void** extra, const void** buffer, size_t* bytes) {
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      if (extra[i + 1] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *bytes = *static_cast<const size_t*>(extra[i + 1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (*buffer == nullptr && *bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult check_shape(Session& session, CUdevice device, CUfunction function, const Kernel& kernel,
                     const Shape& shape, uint32_t sms) {
  const ShapeLimits& limits = limits_of(session, device);
  CUresult r = check_limits(limits, kernel, shape);
  ClusterSize cluster;
  if (r == CUDA_SUCCESS) r = check_cluster(limits, kernel, shape, &cluster);
  if (r != CUDA_SUCCESS || !shape.cooperative) return r;
  return check_cooperative(function, shape, cluster.named() ? cluster.blocks() : 1, sms);
}

CUresult check_cluster(Session& session, CUdevice device, const Kernel& kernel, const Shape& shape,
                       ClusterSize* chosen) {
  return check_cluster(limits_of(session, device), kernel, shape, chosen);
}

ClusterRules kernel_cluster_rules(const Kernel& kernel, bool served) {
  return cluster_rules([&kernel](CUfunction_attribute which) { return kernel.attribute(which); },
                       served);
}

CUresult measure_params(const Kernel& kernel, void** params, void** extra, const void** buffer,
                        size_t* bytes) {
  *buffer = nullptr;
  *bytes = kernel.param_bytes;
  if (extra != nullptr) {
    if (params != nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = 0;
    if (CUresult r = read_extra(extra, buffer, bytes); r != CUDA_SUCCESS) return r;
    if (*bytes < kernel.param_bytes || *bytes > protocol::kRecordBytesMax / 2)
      return CUDA_ERROR_INVALID_VALUE;
  } else if (params == nullptr && !kernel.params.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

void pack_params(std::byte* to, const Kernel& kernel, void** params) {
  uint32_t end = 0;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Param param = kernel.params[i];
    if (param.offset > end) std::memset(to + end, 0, param.offset - end);
    if (param.bytes == 8) {
      std::memcpy(to + param.offset, params[i], 8);
    } else if (param.bytes == 4) {
      std::memcpy(to + param.offset, params[i], 4);
    } else {
      std::memcpy(to + param.offset, params[i], param.bytes);
    }
    end = param.offset + param.bytes;
  }
}

}  // namespace vgpu::shim
