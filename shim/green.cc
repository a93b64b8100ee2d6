// Resources of SMs, and green contexts: the driver's own are with the worker, numbers of them here.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <vector>

#include "api/green/backend.h"
#include "api/green/resource.h"
#include "driver_functions.h"
#include "shim/device.h"
#include "shim/stream_table.h"

namespace vgpu::green {
namespace {

using shim::enter;
using shim::Session;
using shim::SmResources;

CUdevResource numbered(uint64_t number, const CUdevSmResource& sm, CUdevice device,
                       uint64_t split) {
  ResourceTag tag;
  tag.key = number;
  tag.split = split;
  tag.device = device;
  return make_resource(sm, tag);
}

// Of an answer with the fields of one resource.
template <typename Answer>
CUdevResource resource_in(const Answer& answer, CUdevice device) {
  return numbered(answer.resource, {answer.sms, answer.least, answer.together}, device, 0);
}

CUresult ask_for(Session& session, CUdevice device, uint64_t context,
                 wire::SmResourceReply* answer) {
  wire::SmResourceArgs args;
  args.context = context;
  args.device = static_cast<uint32_t>(device);
  return session.ask(nullptr, Op::kSmResource, args, answer);
}

}  // namespace

CUresult resource_of_device(CUdevice device, CUdevResource* resource) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  SmResources& known = session->sm_resources();
  std::lock_guard lock(known.mutex);
  auto found = known.devices.find(device);
  if (found == known.devices.end()) {
    wire::SmResourceReply answer;
    if (CUresult r = ask_for(*session, device, 0, &answer); r != CUDA_SUCCESS) return r;
    found = known.devices.emplace(device, answer).first;
  }
  *resource = resource_in(found->second, device);
  return CUDA_SUCCESS;
}

// One that is not limited has what its device has.
CUresult resource_of_context(CUcontext handle, CUdevResource* resource) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  const shim::Context* context = session->contexts().find_living(handle);
  if (context == nullptr || !context->active.load(std::memory_order_acquire))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context->sms.load(std::memory_order_relaxed) == 0)
    return resource_of_device(context->device, resource);
  wire::SmResourceReply answer;
  const CUresult r = ask_for(*session, context->device, context->id, &answer);
  if (r == CUDA_SUCCESS) *resource = resource_in(answer, context->device);
  return r;
}

CUresult split(const CUdevResource& input, unsigned flags, unsigned minimum, unsigned room,
               Split* split) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  const ResourceTag tag = tag_of(input);
  wire::SmSplitArgs args;
  args.resource = tag.key;
  args.flags = flags;
  args.minimum = minimum;
  args.room = room;
  SmResources& known = session->sm_resources();
  std::lock_guard lock(known.mutex);
  const std::tuple question(tag.key, uint32_t{flags}, uint32_t{minimum}, uint32_t{room});
  auto found = known.splits.find(question);
  if (found == known.splits.end()) {
    wire::SmSplitReply answer;
    const CUresult r = session->ask(nullptr, Op::kSmSplit, args, &answer);
    if (r != CUDA_SUCCESS) return r;
    if (answer.groups > room) return CUDA_ERROR_UNKNOWN;
    found = known.splits.emplace(question, answer).first;
  }
  const wire::SmSplitReply& made = found->second;
  for (uint32_t i = 0; i < made.groups; ++i) {
    split->groups.push_back(
        numbered(made.first + i, {made.sms, made.least, made.together}, tag.device, made.first));
  }
  split->remaining = CUdevResource{};
  if (made.left_sms != 0) {
    split->remaining =
        numbered(made.first + made.groups, {made.left_sms, made.left_least, made.left_together},
                 tag.device, made.first);
  }
  return CUDA_SUCCESS;
}

CUresult open_partition(CUdevice device, const std::vector<CUdevResource>& resources,
                        uint64_t* partition, CUdevResource* all) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  {
    std::lock_guard lock(session->sm_resources().mutex);
    *partition = session->sm_resources().next_partition++;
  }
  std::vector<uint64_t> numbers;
  for (const CUdevResource& each : resources) numbers.push_back(tag_of(each).key);
  wire::GreenCreateArgs args;
  args.green = *partition;
  args.device = static_cast<uint32_t>(device);
  args.count = static_cast<uint32_t>(numbers.size());
  wire::GreenCreateReply answer;
  const CUresult r =
      session->ask(nullptr, Op::kGreenCreate, args, &answer, std::as_bytes(std::span(numbers)));
  if (r == CUDA_SUCCESS) *all = resource_in(answer, device);
  return r;
}

void close_partition(CUdevice, uint64_t partition) {
  Session* session;
  if (enter(&session) != CUDA_SUCCESS) return;
  wire::GreenDestroyArgs args;
  args.green = partition;
  (void)session->call(nullptr, Op::kGreenDestroy, args);
}

CUresult create_stream(const Green& green, int priority, CUstream* stream) {
  Session* session;
  shim::Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  int least = 0, greatest = 0;
  if (CUresult r = driver::cuCtxGetStreamPriorityRange(&least, &greatest); r != CUDA_SUCCESS)
    return r;
  priority = std::clamp(priority, greatest, least);  // lower numbers go first
  shim::StreamRef made;
  const CUresult r = shim::create_stream(*session, context, green, priority, &made);
  if (r == CUDA_SUCCESS) *stream = shim::handle_of<CUstream>(made.id);
  return r;
}

CUresult sm_affinity(CUcontext handle, unsigned* sms) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  const shim::Context* context = session->contexts().find_living(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *sms = context->sms.load(std::memory_order_relaxed);
  if (*sms != 0) return CUDA_SUCCESS;
  int supported = 0;
  const CUresult r = driver::cuDeviceGetExecAffinitySupport(
      &supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, context->device);
  if (r != CUDA_SUCCESS) return r;
  if (supported == 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  *sms = static_cast<unsigned>(
      shim::attribute(*session->device(context->device), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  return CUDA_SUCCESS;
}

Green* current() { return shim::current_view(); }

}  // namespace vgpu::green
