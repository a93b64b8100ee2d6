// How many blocks fit.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "driver_functions.h"
#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/function_attributes.h"
#include "softgpu/api/launch_object.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::Function;
using softgpu::kWarp;

CUresult look_up(CUfunction handle, std::shared_ptr<Function>* function) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  *function = softgpu::find_function(*context, handle);
  return *function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

const softgpu::DeviceConfig& config() { return Driver::instance().device().config(); }

// SMs that work of the current context has, which there is.
int sms() {
  if (const green::Green* const view = softgpu::context_stack().view())
    return static_cast<int>(view->resource.sm.smCount);
  return static_cast<int>(softgpu::sm_count(*softgpu::context_stack().top(), nullptr));
}

// Blocks of a launch that fit on one SM. False for what is no launch.
bool fitting_blocks(const Function& function, const CUlaunchConfig* launch, int* blocks) {
  if (launch == nullptr || (launch->numAttrs != 0 && launch->attrs == nullptr)) return false;
  const uint64_t threads = uint64_t{launch->blockDimX} * launch->blockDimY * launch->blockDimZ;
  if (threads == 0 || threads > 1024) return false;
  *blocks = softgpu::blocks_per_sm(*function.info, config().limits, static_cast<int>(threads),
                                   launch->sharedMemBytes);
  return true;
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int block_size, size_t dynamic_shared,
                                                              unsigned int flags) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  if (blocks == nullptr || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *blocks = softgpu::blocks_per_sm(*function->info, config().limits, block_size, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_size, size_t dynamic_shared) {
  return driver::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                      dynamic_shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid_size, int* block_size,
                                                   CUfunction handle, CUoccupancyB2DSize shared_of,
                                                   size_t dynamic_shared, int limit,
                                                   unsigned int flags) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  if (grid_size == nullptr || block_size == nullptr ||
      flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int most = softgpu::max_threads(*function->info);
  if (limit > 0) most = std::min(most, limit);
  int best_threads = 0;
  int best_size = 0;
  int best_blocks = 0;
  // From large to small: of equal occupancy the larger block wins.
  for (int size = (most + kWarp - 1) / kWarp * kWarp; size > 0; size -= kWarp) {
    const int tried = std::min(size, most);
    const size_t shared = shared_of != nullptr ? shared_of(tried) : dynamic_shared;
    const int blocks = softgpu::blocks_per_sm(*function->info, config().limits, tried, shared);
    if (blocks * tried <= best_threads) continue;
    best_threads = blocks * tried;
    best_size = tried;
    best_blocks = blocks;
  }
  *block_size = best_size;
  *grid_size = best_blocks * sms();
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid_size, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                          int limit) {
  return driver::cuOccupancyMaxPotentialBlockSizeWithFlags(grid_size, block_size, function,
                                                           shared_of, dynamic_shared, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks,
                                                 int block_size) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (softgpu::blocks_per_sm(*function->info, config().limits, block_size, 0) < blocks) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr int kUnit = 128;
  const int share =
      config().limits.shared_per_sm / blocks / kUnit * kUnit - softgpu::kSharedReserved;
  const int most = std::min(share, config().limits.shared_per_block_max);
  *bytes = static_cast<size_t>(
      std::max(0, most - static_cast<int>(function->info->static_shared_bytes)));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle,
                                            const CUlaunchConfig* launch) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  int blocks = 0;
  if (size == nullptr || !fitting_blocks(*function, launch, &blocks))
    return CUDA_ERROR_INVALID_VALUE;
  const ClusterRules rules =
      softgpu::kernel_cluster_rules(*function->info, *function->settings, config());
  *size = blocks == 0 ? 0 : static_cast<int>(largest_cluster(rules));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* count, CUfunction handle, const CUlaunchConfig* launch) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  int blocks = 0;
  if (count == nullptr || !fitting_blocks(*function, launch, &blocks))
    return CUDA_ERROR_INVALID_VALUE;
  return count_clusters(
      softgpu::kernel_cluster_rules(*function->info, *function->settings, config()),
      asked_cluster(launch->attrs, launch->numAttrs), blocks, sms(), count);
}

}  // namespace vgpu::driver
