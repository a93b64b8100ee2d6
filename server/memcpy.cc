// Linear copies: staged through the slabs, in place, and on the device.
// SPDX-License-Identifier: Apache-2.0
#include "server/staged_copy.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

void* host_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// A copy between two addresses; `owned`: both are the guest's to name.
template <typename Args, typename Call>
bool copy_addresses(Session& session, const Args& args, const Record& record, bool owned,
                    Call call) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!owned) return session.malformed(record, "not the guest's memory");
  session.admission().admit(copy_cost(args.bytes));
  return session.submit(stream, record,
                        [args, call](const DriverTable& driver, CUstream handle, const std::byte*) {
                          return call(driver, args, handle);
                        });
}

}  // namespace

bool handle_CopyToDevice(Session& session, const wire::CopyToDeviceArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.memory().owns(args.destination, args.bytes)) {
    return session.malformed(record, "destination is not the guest's memory");
  }
  return copy_up(session, stream, args, record,
                 [to = args.destination, bytes = args.bytes](
                     const DriverTable& driver, CUstream handle, const std::byte* from) {
                   return driver.cuMemcpyHtoDAsync_v2(to, from, bytes, handle);
                 });
}

bool handle_CopyFromDevice(Session& session, const wire::CopyFromDeviceArgs& args,
                           const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.memory().owns(args.source, args.bytes)) {
    return session.malformed(record, "source is not the guest's memory");
  }
  return copy_down(session, stream, args, record,
                   [from = args.source, bytes = args.bytes](const DriverTable& driver,
                                                            CUstream handle, std::byte* to) {
                     return driver.cuMemcpyDtoHAsync_v2(to, from, bytes, handle);
                   });
}

bool handle_CopyToDeviceInPlace(Session& session, const wire::CopyToDeviceInPlaceArgs& args,
                                const Record& record) {
  const bool owned = session.memory().owns(args.destination, args.bytes) &&
                     session.host_memory().contains(args.source, args.bytes);
  return copy_addresses(
      session, args, record, owned, [](const DriverTable& driver, const auto& a, CUstream handle) {
        return driver.cuMemcpyHtoDAsync_v2(a.destination, host_pointer(a.source), a.bytes, handle);
      });
}

bool handle_CopyFromDeviceInPlace(Session& session, const wire::CopyFromDeviceInPlaceArgs& args,
                                  const Record& record) {
  const bool owned = session.memory().owns(args.source, args.bytes) &&
                     session.host_memory().contains(args.destination, args.bytes);
  return copy_addresses(
      session, args, record, owned, [](const DriverTable& driver, const auto& a, CUstream handle) {
        return driver.cuMemcpyDtoHAsync_v2(host_pointer(a.destination), a.source, a.bytes, handle);
      });
}

bool handle_CopyDevice(Session& session, const wire::CopyDeviceArgs& args, const Record& record) {
  const bool owned = session.memory().owns(args.destination, args.bytes) &&
                     session.memory().owns(args.source, args.bytes);
  return copy_addresses(
      session, args, record, owned, [](const DriverTable& driver, const auto& a, CUstream handle) {
        return driver.cuMemcpyDtoDAsync_v2(a.destination, a.source, a.bytes, handle);
      });
}

}  // namespace vgpu::server
