// Green contexts, and contexts with some of the SMs.
// SPDX-License-Identifier: Apache-2.0
#include "server/green.h"

#include <cstring>

#include "op.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// Fills in the fields that answers about one resource have.
template <typename Answer>
void describe(const CUdevResource& resource, uint64_t number, Answer* answer) {
  answer->resource = number;
  answer->sms = resource.sm.smCount;
  answer->least = resource.sm.minSmPartitionSize;
  answer->together = resource.sm.smCoscheduledAlignment;
}

// The numbers behind a record, as resources of one device. False: more or less than it says.
bool read_numbers(const Record& record, uint32_t count, std::vector<uint64_t>* numbers) {
  const auto& bytes = record.blob().bytes;
  if (count == 0 || count > kGreenResourcesMax || bytes.size() != count * sizeof(uint64_t))
    return false;
  numbers->resize(count);
  std::memcpy(numbers->data(), bytes.data(), bytes.size());
  return true;
}

CUresult make_green(Session& session, const std::vector<CUdevResource>& resources,
                    const Device& device, Green* green, wire::GreenCreateReply* answer) {
  const DriverTable& driver = session.driver();
  std::vector<CUdevResource> own = resources;
  CUdevResourceDesc descriptor = nullptr;
  CUresult r =
      driver.cuDevResourceGenerateDesc(&descriptor, own.data(), static_cast<unsigned>(own.size()));
  if (r == CUDA_SUCCESS) {
    r = driver.cuGreenCtxCreate(&green->handle, descriptor, device.number(),
                                CU_GREEN_CTX_DEFAULT_STREAM);
  }
  if (r != CUDA_SUCCESS) return r;
  CUdevResource all;
  r = driver.cuGreenCtxGetDevResource(green->handle, &all, CU_DEV_RESOURCE_TYPE_SM);
  if (r == CUDA_SUCCESS) {
    green->resource = session.sm_resources().add({all}, green->device);
    if (green->resource == 0) r = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (r == CUDA_SUCCESS) {
    describe(all, green->resource, answer);
  } else {
    (void)driver.cuGreenCtxDestroy(std::exchange(green->handle, nullptr));
  }
  return r;
}

}  // namespace

bool handle_DeviceAffinity(Session& session, const wire::DeviceAffinityArgs& args,
                           const Record& record) {
  const Device* device = session.config().devices->at(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  int supported = 0;
  const DriverTable& driver = session.driver();
  const CUresult r = driver.cuDeviceGetExecAffinitySupport == nullptr
                         ? CUDA_SUCCESS
                         : driver.cuDeviceGetExecAffinitySupport(
                               &supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device->number());
  wire::DeviceAffinityReply answer;
  answer.supported = supported != 0 ? 1 : 0;
  return session.complete(record, r, &answer, sizeof(answer));
}

bool handle_SmResource(Session& session, const wire::SmResourceArgs& args, const Record& record) {
  const Device* device = session.config().devices->at(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  const DriverTable& driver = session.driver();
  CUdevResource resource;
  CUresult r;
  if (args.context == 0) {
    if (driver.cuDeviceGetDevResource == nullptr)
      return session.refuse(record, "cuDeviceGetDevResource");
    r = driver.cuDeviceGetDevResource(device->number(), &resource, CU_DEV_RESOURCE_TYPE_SM);
  } else {
    const Context* context = session.find_context(args.context);
    if (context == nullptr || context->device != args.device)
      return session.malformed(record, "unknown context");
    if (driver.cuCtxGetDevResource == nullptr) return session.refuse(record, "cuCtxGetDevResource");
    r = driver.cuCtxGetDevResource(context->handle, &resource, CU_DEV_RESOURCE_TYPE_SM);
  }
  wire::SmResourceReply answer;
  if (r == CUDA_SUCCESS) {
    const uint64_t number = session.sm_resources().add({resource}, args.device);
    if (number == 0) r = CUDA_ERROR_OUT_OF_MEMORY;
    describe(resource, number, &answer);
  }
  return session.complete(record, r, &answer, sizeof(answer));
}

bool handle_SmSplit(Session& session, const wire::SmSplitArgs& args, const Record& record) {
  const DriverTable& driver = session.driver();
  if (driver.cuDevSmResourceSplitByCount == nullptr)
    return session.refuse(record, "cuDevSmResourceSplitByCount");
  SmResources::Entry input;
  // One whose green context is gone: the guest's program may not know.
  if (!session.sm_resources().find(args.resource, &input))
    return session.complete(record, CUDA_ERROR_INVALID_VALUE, nullptr, 0);
  unsigned groups = 0;
  CUresult r = driver.cuDevSmResourceSplitByCount(nullptr, &groups, &input.resource, nullptr,
                                                  args.flags, args.minimum);
  groups = std::min({groups, args.room, kGreenResourcesMax});
  std::vector<CUdevResource> made(groups);
  CUdevResource left = {};
  if (r == CUDA_SUCCESS && groups != 0) {
    r = driver.cuDevSmResourceSplitByCount(made.data(), &groups, &input.resource, &left, args.flags,
                                           args.minimum);
    made.resize(std::min<size_t>(groups, made.size()));
  }
  wire::SmSplitReply answer;
  if (r == CUDA_SUCCESS && !made.empty()) {
    answer.groups = static_cast<uint32_t>(made.size());
    answer.sms = made[0].sm.smCount;
    answer.least = made[0].sm.minSmPartitionSize;
    answer.together = made[0].sm.smCoscheduledAlignment;
    if (left.type == CU_DEV_RESOURCE_TYPE_SM && left.sm.smCount != 0) {
      answer.left_sms = left.sm.smCount;
      answer.left_least = left.sm.minSmPartitionSize;
      answer.left_together = left.sm.smCoscheduledAlignment;
      made.push_back(left);
    }
    answer.first = session.sm_resources().add(made, input.device);
    if (answer.first == 0) r = CUDA_ERROR_OUT_OF_MEMORY;
  }
  return session.complete(record, r, &answer, sizeof(answer));
}

// A driver takes as long for it as for a context, so a helper does it.
bool handle_GreenCreate(Session& session, const wire::GreenCreateArgs& args, const Record& record) {
  const Device* device = session.find_device(args.device);
  std::vector<uint64_t> numbers;
  if (device == nullptr) return session.malformed(record, "no such device");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (session.is_packed() || session.driver().cuGreenCtxCreate == nullptr)
    return session.refuse(record, "cuGreenCtxCreate");
  if (!read_numbers(record, args.count, &numbers)) return session.malformed(record, "resources");
  std::vector<CUdevResource> resources;
  for (const uint64_t number : numbers) {
    SmResources::Entry entry;
    if (!session.sm_resources().find(number, &entry) || entry.device != args.device)
      return session.complete(record, CUDA_ERROR_INVALID_VALUE, nullptr, 0);
    resources.push_back(entry.resource);
  }
  Green green;
  green.device = args.device;
  if (!session.greens().add(args.green, green))
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  session.pool().post(
      [&session, device, green, resources, number = args.green, reply = record.reply()]() mutable {
        wire::GreenCreateReply answer;
        const CUresult r = make_green(session, resources, *device, &green, &answer);
        if (r == CUDA_SUCCESS) {
          session.greens().set(number, green);
        } else {
          session.greens().remove(number);
        }
        session.channel().replies().complete_with(reply, r, answer);
      });
  return true;
}

bool handle_GreenDestroy(Session& session, const wire::GreenDestroyArgs& args,
                         const Record& record) {
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  Green green;
  if (!session.greens().find(args.green, &green) || green.handle == nullptr)
    return session.malformed(record, "unknown green context");
  session.greens().remove(args.green);
  session.sm_resources().remove(green.resource);
  // Behind the ends of its streams, which may still be on their way to the driver.
  session.pool().post([&session, green, lanes = session.lane_ends(), reply = record.reply()] {
    for (const LanePoint& point : lanes) session.lanes().wait(point);
    session.channel().replies().complete(reply, session.driver().cuGreenCtxDestroy(green.handle));
  });
  return true;
}

bool handle_GreenStreamCreate(Session& session, const wire::GreenStreamCreateArgs& args,
                              const Record& record) {
  Context* const context = session.bound();
  Green green;
  if (context == nullptr || !context->primary)
    return session.malformed(record, "no primary context is bound");
  if (!session.greens().find(args.green, &green) || green.handle == nullptr ||
      green.device != context->device)
    return session.malformed(record, "unknown green context");
  auto stream = std::make_unique<Stream>(context, context->flow);
  stream->hold_word = protocol::hold_word(args.stream);
  CUstream handle = nullptr;
  const CUresult result = session.driver().cuGreenCtxStreamCreate(
      &handle, green.handle, CU_STREAM_NON_BLOCKING, args.priority);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  stream->handle = handle;
  Stream* made = session.streams().insert(args.stream, std::move(stream));
  if (made == nullptr) {
    (void)session.driver().cuStreamDestroy_v2(handle);
    return session.malformed(record, "stream id");
  }
  return session.complete(record, session.catch_up(made), nullptr, 0);
}

}  // namespace vgpu::server
