// Some of the SMs, for green contexts and for contexts with an affinity.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <atomic>

#include "api/green/backend.h"
#include "api/green/resource.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/launch_object.h"

namespace vgpu::green {
namespace {

using softgpu::Driver;
using softgpu::SmMask;

// An SM runs whole clusters by itself, so any number of them will do.
constexpr unsigned kSmsLeast = 1, kSmsTogether = 1;

CUdevResource resource_of(const SmMask& sms, CUdevice device, uint64_t split) {
  ResourceTag tag;
  tag.split = split;
  tag.words = sms.words;
  tag.device = device;
  return make_resource({sms.count(), kSmsLeast, kSmsTogether}, tag);
}

SmMask mask_of(const CUdevResource& resource) {
  SmMask mask;
  mask.words = tag_of(resource).words;
  return mask;
}

// Takes the lowest SMs out of a set.
SmMask take(SmMask* from, unsigned count) {
  SmMask taken;
  for (uint32_t sm = 0; sm < softgpu::kSmsMax && count > 0; ++sm) {
    if (!from->has(sm)) continue;
    from->words[sm / 64] &= ~(uint64_t{1} << sm % 64);
    taken.add(sm);
    --count;
  }
  return taken;
}

SmMask all_of(CUdevice device) {
  return SmMask::range(0, Driver::instance().device(device).config().sms);
}

}  // namespace

CUresult resource_of_device(CUdevice device, CUdevResource* resource) {
  *resource = resource_of(all_of(device), device, 0);
  return CUDA_SUCCESS;
}

CUresult resource_of_context(CUcontext handle, CUdevResource* resource) {
  const auto context = Driver::instance().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const CUdevice device = context->device().config().ordinal;
  *resource = resource_of(context->sms == nullptr ? all_of(device) : *context->sms, device, 0);
  return CUDA_SUCCESS;
}

CUresult split(const CUdevResource& input, unsigned, unsigned minimum, unsigned room,
               Split* split) {
  static std::atomic<uint64_t> next{1};
  const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  const CUdevice device = tag_of(input).device;
  SmMask left = mask_of(input);
  const unsigned size = std::max(minimum, kSmsLeast);
  for (unsigned made = 0; made < room && left.count() >= size; ++made)
    split->groups.push_back(resource_of(take(&left, size), device, number));
  split->remaining = left.count() == 0 ? CUdevResource{} : resource_of(left, device, number);
  return CUDA_SUCCESS;
}

CUresult open_partition(CUdevice device, const std::vector<CUdevResource>& resources, uint64_t*,
                        CUdevResource* all) {
  SmMask sms;
  for (const CUdevResource& each : resources) {
    for (size_t i = 0; i < sms.words.size(); ++i) sms.words[i] |= mask_of(each).words[i];
  }
  *all = resource_of(sms, device, 0);
  // One that is not running would never do the work.
  softgpu::Device& place = Driver::instance().device(device);
  const bool runs = place.ensure_sms() && sms.any_below(place.running_sms());
  return runs ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void close_partition(CUdevice, uint64_t) {}  // it is in the resource

CUresult sm_affinity(CUcontext handle, unsigned* sms) {
  const auto context = Driver::instance().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *sms = softgpu::sm_count(*context, nullptr);
  return CUDA_SUCCESS;
}

Green* current() { return softgpu::context_stack().view(); }

}  // namespace vgpu::green
