// Occupancy: cuOccupancy*, computed here.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "driver_functions.h"
#include "shim/device.h"
#include "shim/kernel_launch.h"
#include "shim/kernel_use.h"
#include "shim/module_table.h"
#include "shim/occupancy_model.h"

namespace vgpu::driver {

using shim::active_blocks;
using shim::attribute;
using shim::available_dynamic_shared;
using shim::Context;
using shim::enter;
using shim::find_function;
using shim::Function;
using shim::Kernel;
using shim::KernelDemand;
using shim::multiprocessor_limits;
using shim::MultiprocessorLimits;
using shim::Session;

namespace {

struct Subject {
  MultiprocessorLimits limits;
  KernelDemand kernel;
  ClusterRules clusters;
  int multiprocessors = 0;
};

CUresult look_up(CUfunction handle, Subject* subject) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Function* function = find_function(*session, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const protocol::DeviceSnapshot& device = *session->device(context->device);
  Kernel* used = nullptr;
  if (CUresult r = shim::use_kernel(*session, context, *function, &used); r != CUDA_SUCCESS)
    return r;
  const Kernel& kernel = *used;
  subject->limits = multiprocessor_limits(device);
  const green::Green* const view = shim::current_view();
  const uint32_t some =
      view != nullptr ? view->resource.sm.smCount : context->sms.load(std::memory_order_relaxed);
  subject->multiprocessors = some != 0
                                 ? static_cast<int>(some)
                                 : attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  subject->kernel.registers = kernel.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  const int threads = kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (threads > 0) subject->kernel.threads_per_block_max = threads;
  subject->kernel.static_shared_bytes = kernel.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  subject->kernel.dynamic_shared_max =
      kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  subject->clusters = shim::kernel_cluster_rules(
      kernel, attribute(device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0);
  return CUDA_SUCCESS;
}

// Blocks of a launch that fit on one multiprocessor. False for what is no launch.
bool fitting_blocks(const Subject& subject, const CUlaunchConfig* config, int* blocks) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return false;
  const uint64_t threads = uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
  if (threads == 0 || threads > 1024) return false;
  *blocks = active_blocks(subject.limits, subject.kernel, static_cast<int>(threads),
                          config->sharedMemBytes);
  return true;
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int threads, size_t dynamic_shared,
                                                              unsigned int flags) {
  Subject subject;
  if (CUresult r = look_up(function, &subject); r != CUDA_SUCCESS) return r;
  if (blocks == nullptr || threads <= 0 ||
      (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *blocks = active_blocks(subject.limits, subject.kernel, threads, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     size_t dynamic_shared) {
  return driver::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                      dynamic_shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of,
                                                   size_t dynamic_shared, int limit,
                                                   unsigned int flags) {
  Subject subject;
  if (CUresult r = look_up(function, &subject); r != CUDA_SUCCESS) return r;
  if (grid == nullptr || block == nullptr || limit < 0 ||
      (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int most = std::min(subject.limits.threads_per_block_max, subject.kernel.threads_per_block_max);
  if (limit > 0) most = std::min(most, limit);
  const int warp = subject.limits.warp_size;
  int best_threads = 0, best_block = 0, best_blocks = 0;
  for (int rounded = (most + warp - 1) / warp * warp; rounded > 0; rounded -= warp) {
    const int threads = std::min(rounded, most);
    const size_t shared = shared_of != nullptr ? shared_of(threads) : dynamic_shared;
    const int blocks = active_blocks(subject.limits, subject.kernel, threads, shared);
    if (blocks * threads > best_threads) {
      best_threads = blocks * threads;
      best_block = threads;
      best_blocks = blocks;
    }
    if (best_threads == subject.limits.threads_max) break;
  }
  *block = best_block;
  *grid = best_blocks * subject.multiprocessors;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                          int limit) {
  return driver::cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of,
                                                           dynamic_shared, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks,
                                                 int threads) {
  Subject subject;
  if (CUresult r = look_up(function, &subject); r != CUDA_SUCCESS) return r;
  if (bytes == nullptr || blocks <= 0 || threads <= 0 ||
      active_blocks(subject.limits, subject.kernel, threads, 0) < blocks) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = available_dynamic_shared(subject.limits, subject.kernel, blocks, threads);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                            const CUlaunchConfig* config) {
  Subject subject;
  if (CUresult r = look_up(function, &subject); r != CUDA_SUCCESS) return r;
  int blocks = 0;
  if (size == nullptr || !fitting_blocks(subject, config, &blocks)) return CUDA_ERROR_INVALID_VALUE;
  *size = blocks == 0 ? 0 : static_cast<int>(largest_cluster(subject.clusters));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                      const CUlaunchConfig* config) {
  Subject subject;
  if (CUresult r = look_up(function, &subject); r != CUDA_SUCCESS) return r;
  int blocks = 0;
  if (clusters == nullptr || !fitting_blocks(subject, config, &blocks))
    return CUDA_ERROR_INVALID_VALUE;
  return count_clusters(subject.clusters, asked_cluster(config->attrs, config->numAttrs), blocks,
                        subject.multiprocessors, clusters);
}

}  // namespace vgpu::driver
