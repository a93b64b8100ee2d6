// Linear copies: staged through the slabs, in place, and on the device.
// SPDX-License-Identifier: Apache-2.0
#include "server/foreign.h"
#include "server/staged_copy.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

void* host_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// A copy between memory of a device and of the host; `owned`: both are the guest's to name.
template <typename Args, typename Call>
bool copy_addresses(Session& session, const Args& args, const Record& record, bool owned,
                    scheduler::Engine engine, uint64_t on_device, Call call) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!owned) return session.malformed(record, "not the guest's memory");
  const WorkPlace place(session, *stream,
                        session.memory().device_of(on_device, args.bytes, stream->context->device));
  return session.submit(
      stream, record,
      [args, call, place](const DriverTable& driver, CUstream handle, const std::byte*) {
        return place.run(driver, handle, [&](CUstream on) { return call(driver, args, on); });
      },
      {.work = copy_work(engine, args.bytes)});
}

// Between two devices, or on one that is not the stream's.
bool copy_between(Session& session, Stream* stream, const wire::CopyDeviceArgs& args,
                  const Record& record, const Device& to, const Device& from) {
  if (session.driver().cuMemcpyPeerAsync == nullptr)
    return session.refuse(record, "cuMemcpyPeerAsync");
  return session.submit(
      stream, record,
      [args, &to, &from](const DriverTable& driver, CUstream handle, const std::byte*) {
        return between(to, from, [&](CUcontext there, CUcontext here) {
          return there == nullptr ? driver.cuMemcpyDtoDAsync_v2(args.destination, args.source,
                                                                args.bytes, handle)
                                  : driver.cuMemcpyPeerAsync(args.destination, there, args.source,
                                                             here, args.bytes, handle);
        });
      },
      {.work = copy_work(scheduler::Engine::kCompute, args.bytes)});
}

}  // namespace

bool handle_CopyToDevice(Session& session, const wire::CopyToDeviceArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  const int device =
      session.memory().device_of(args.destination, args.bytes, stream->context->device);
  if (device < 0) return session.malformed(record, "destination is not the guest's memory");
  return copy_up(
      session, stream, args, record,
      [to = args.destination, bytes = args.bytes, place = WorkPlace(session, *stream, device)](
          const DriverTable& driver, CUstream handle, const std::byte* from) {
        return place.run(driver, handle, [&](CUstream on) {
          return driver.cuMemcpyHtoDAsync_v2(to, from, bytes, on);
        });
      });
}

bool handle_CopyFromDevice(Session& session, const wire::CopyFromDeviceArgs& args,
                           const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  const int device = session.memory().device_of(args.source, args.bytes, stream->context->device);
  if (device < 0) return session.malformed(record, "source is not the guest's memory");
  return copy_down(
      session, stream, args, record,
      [from = args.source, bytes = args.bytes, place = WorkPlace(session, *stream, device)](
          const DriverTable& driver, CUstream handle, std::byte* to) {
        return place.run(driver, handle, [&](CUstream on) {
          return driver.cuMemcpyDtoHAsync_v2(to, from, bytes, on);
        });
      });
}

bool handle_CopyToDeviceInPlace(Session& session, const wire::CopyToDeviceInPlaceArgs& args,
                                const Record& record) {
  const bool owned = session.memory().owns(args.destination, args.bytes) &&
                     session.host_memory().contains(args.source, args.bytes);
  session.figures().copied_to(args.bytes);
  return copy_addresses(
      session, args, record, owned, scheduler::Engine::kToDevice, args.destination,
      [](const DriverTable& driver, const auto& a, CUstream handle) {
        return driver.cuMemcpyHtoDAsync_v2(a.destination, host_pointer(a.source), a.bytes, handle);
      });
}

bool handle_CopyFromDeviceInPlace(Session& session, const wire::CopyFromDeviceInPlaceArgs& args,
                                  const Record& record) {
  const bool owned = session.memory().owns(args.source, args.bytes) &&
                     session.host_memory().contains(args.destination, args.bytes);
  session.figures().copied_from(args.bytes);
  return copy_addresses(session, args, record, owned, scheduler::Engine::kFromDevice, args.source,
                        [](const DriverTable& driver, const auto& a, CUstream handle) {
                          return driver.cuMemcpyDtoHAsync_v2(host_pointer(a.destination), a.source,
                                                             a.bytes, handle);
                        });
}

bool handle_CopyDevice(Session& session, const wire::CopyDeviceArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  const int to = session.memory().device_of(args.destination, args.bytes, stream->context->device);
  const int from = session.memory().device_of(args.source, args.bytes, stream->context->device);
  if (to < 0 || from < 0) return session.malformed(record, "not the guest's memory");
  if (to != from || static_cast<uint32_t>(to) != stream->context->device) [[unlikely]] {
    const Device* there = session.find_device(static_cast<uint32_t>(to));
    const Device* here = session.find_device(static_cast<uint32_t>(from));
    if (there != nullptr && here != nullptr)
      return copy_between(session, stream, args, record, *there, *here);
  }
  return session.submit(stream, record,
                        [args](const DriverTable& driver, CUstream handle, const std::byte*) {
                          return driver.cuMemcpyDtoDAsync_v2(args.destination, args.source,
                                                             args.bytes, handle);
                        },
                        {.work = copy_work(scheduler::Engine::kCompute, args.bytes)});
}

}  // namespace vgpu::server
