// Linear copies: staged through the slabs, in place, and on the device.
// SPDX-License-Identifier: Apache-2.0
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

void* host_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// Bytes behind a record travel inside the driver's own queue, so they fill it faster.
constexpr uint32_t inline_weight(uint64_t bytes) { return 1 + static_cast<uint32_t>(bytes / 256); }

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
  session.admission().admit(copy_cost(args.bytes));
  if (!record.blob().empty()) {
    if (record.blob().size() != args.bytes) return session.malformed(record, "blob size");
    return session.submit(stream, record,
                          [to = args.destination, bytes = args.bytes](
                              const DriverTable& driver, CUstream handle, const std::byte* blob) {
                            return driver.cuMemcpyHtoDAsync_v2(to, blob, bytes, handle);
                          },
                          {.weight = inline_weight(args.bytes), .blob = record.blob().bytes});
  }
  const auto piece =
      protocol::slab_range(session.channel().up_slab(), args.slab_offset, args.bytes);
  if (!piece) return session.malformed(record, "slab range");
  const bool goes_on =
      session.submit(stream, record,
                     [to = args.destination, piece = *piece](const DriverTable& driver,
                                                             CUstream handle, const std::byte*) {
                       return driver.cuMemcpyHtoDAsync_v2(to, piece.data(), piece.size(), handle);
                     },
                     {.may_block = !session.slab_registered()});
  session.slab_used(stream, args.bytes, record.sequence());
  return goes_on;
}

bool handle_CopyFromDevice(Session& session, const wire::CopyFromDeviceArgs& args,
                           const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!session.memory().owns(args.source, args.bytes)) {
    return session.malformed(record, "source is not the guest's memory");
  }
  const auto piece =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.bytes);
  if (!piece) return session.malformed(record, "slab range");
  session.admission().admit(copy_cost(args.bytes));
  CUresult result =
      session.issue(stream, record.op(),
                    [from = args.source, piece = *piece](const DriverTable& driver, CUstream handle,
                                                         const std::byte*) {
                      return driver.cuMemcpyDtoHAsync_v2(piece.data(), from, piece.size(), handle);
                    },
                    {.may_block = !session.slab_registered()});
  MarkRef mark;
  if (result == CUDA_SUCCESS) result = session.mark(stream, &mark);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  if (args.bytes <= kSoonBytesMax) {
    session.answer_soon(std::move(mark), record.reply());
  } else {
    session.answer_after({std::move(mark)}, record.reply(), stream->context);
  }
  return true;
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
