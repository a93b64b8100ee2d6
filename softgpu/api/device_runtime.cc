// What kernels that launch kernels ask of their module.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <climits>

#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/function_attributes.h"
#include "softgpu/api/launch_object.h"

namespace vgpu::softgpu {
namespace {

CnpError cnp_error(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
      return CnpError::kSuccess;
    case CUDA_ERROR_INVALID_VALUE:  // all that is wrong with a shape
      return CnpError::kInvalidConfiguration;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_OUT_OF_MEMORY:
      return CnpError::kOutOfResources;
    default:
      return CnpError::kInvalidValue;
  }
}

}  // namespace

CnpError Module::make_child(Grid& parent, uint64_t function, const ChildShape& shape,
                            std::unique_ptr<Command>* command) {
  const auto found = kernels_by_address_.find(function);
  if (found == kernels_by_address_.end()) return CnpError::kInvalidValue;
  LaunchShape wanted;
  wanted.grid = shape.grid;
  wanted.block = shape.block;
  wanted.shared_bytes = shape.shared_bytes;
  Launch launch;
  const CUresult prepared = prepare_child(shared_from_this(), found->second, wanted, &launch);
  if (prepared != CUDA_SUCCESS) return cnp_error(prepared);
  *command = make_command(launch, parent.channel, parent.priority, parent.sms);
  (*command)->grid->depth = parent.depth + 1;
  return CnpError::kSuccess;
}

CnpError Module::function_attribute(uint64_t function, uint32_t attribute, int* value) {
  const auto found = kernels_by_address_.find(function);
  if (found == kernels_by_address_.end() || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CnpError::kInvalidValue;
  const Function& meant = *functions_[found->second];
  return cnp_error(softgpu::function_attribute(
      *meant.info, *meant.settings, static_cast<CUfunction_attribute>(attribute), value));
}

CnpError Module::resident_blocks(uint64_t function, int threads, uint64_t shared_bytes,
                                 int* blocks) {
  const auto found = kernels_by_address_.find(function);
  if (found == kernels_by_address_.end() || threads <= 0 || shared_bytes > INT_MAX)
    return CnpError::kInvalidValue;
  *blocks = blocks_per_sm(*functions_[found->second]->info, context_->device().config().limits,
                          threads, shared_bytes);
  return CnpError::kSuccess;
}

CnpError Module::limit(uint32_t which, uint64_t* value) {
  switch (which) {
    case CU_LIMIT_STACK_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      *value = context_->limits[which].load();
      return CnpError::kSuccess;
    default:
      return CnpError::kUnsupportedLimit;
  }
}

uint32_t Module::pending_launches_max() {
  constexpr size_t kMost = 1 << 30;  // twice of it is the number of events
  return static_cast<uint32_t>(
      std::min(context_->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT].load(), kMost));
}

CnpError Module::device_attribute(uint32_t attribute, int device, int* value) {
  Driver& driver = Driver::instance();
  if (device < 0 || device >= driver.device_count()) return CnpError::kInvalidDevice;
  if (attribute == 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CnpError::kInvalidValue;
  *value = softgpu::device_attribute(driver.device(device).config(),
                                     static_cast<CUdevice_attribute>(attribute));
  return CnpError::kSuccess;
}

int Module::device_count() { return Driver::instance().device_count(); }

int Module::device() { return context_->device().config().ordinal; }

int Module::cache_config() { return static_cast<int>(context_->cache_config.load()); }

int Module::shared_config() { return static_cast<int>(context_->shared_config.load()); }

}  // namespace vgpu::softgpu
