// Linear copies: staged through the slabs, in place, and on the device.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

void* host_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

bool handle_CopyToDevice(Session& session, const wire::CopyToDeviceArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.memory().owns(args.destination, args.bytes)) {
    return session.malformed(record, "destination is not the guest's memory");
  }
  const void* source = record.blob().data();
  const bool staged = record.blob().empty();
  if (staged) {
    const auto piece =
        protocol::slab_range(session.channel().up_slab(), args.slab_offset, args.bytes);
    if (!piece) return session.malformed(record, "slab range");
    source = piece->data();
  } else if (record.blob().size() != args.bytes) {
    return session.malformed(record, "blob size");
  }
  session.admission().admit(copy_cost(args.bytes));
  session.touch(stream);
  const CUresult result =
      session.driver().cuMemcpyHtoDAsync_v2(args.destination, source, args.bytes, stream->handle);
  if (staged) {
    session.slab_used(result == CUDA_SUCCESS ? stream : nullptr, args.bytes, record.sequence());
  }
  return session.complete(record, result, nullptr, 0);
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
  const DriverTable& driver = session.driver();
  const bool direct =
      !session.slab_registered() || (args.bytes <= kDirectCopyBytesMax && session.device_idle());
  CUresult result =
      driver.cuMemcpyDtoHAsync_v2(piece->data(), args.source, args.bytes, stream->handle);
  if (direct) {
    // Nothing else is in flight, so this wait is as short as the copy.
    if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(stream->handle);
    return session.complete(record, result, nullptr, 0);
  }
  session.touch(stream);
  Mark mark;
  if (result == CUDA_SUCCESS) result = session.mark(stream, &mark);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  session.answer_after({mark}, record.reply(), stream->context);
  return true;
}

bool handle_CopyToDeviceInPlace(Session& session, const wire::CopyToDeviceInPlaceArgs& args,
                                const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.memory().owns(args.destination, args.bytes) ||
      !session.host_memory().contains(args.source, args.bytes)) {
    return session.malformed(record, "not the guest's memory");
  }
  session.admission().admit(copy_cost(args.bytes));
  session.touch(stream);
  return session.complete(
      record,
      session.driver().cuMemcpyHtoDAsync_v2(args.destination, host_pointer(args.source), args.bytes,
                                            stream->handle),
      nullptr, 0);
}

bool handle_CopyFromDeviceInPlace(Session& session, const wire::CopyFromDeviceInPlaceArgs& args,
                                  const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.memory().owns(args.source, args.bytes) ||
      !session.host_memory().contains(args.destination, args.bytes)) {
    return session.malformed(record, "not the guest's memory");
  }
  session.admission().admit(copy_cost(args.bytes));
  session.touch(stream);
  return session.complete(
      record,
      session.driver().cuMemcpyDtoHAsync_v2(host_pointer(args.destination), args.source, args.bytes,
                                            stream->handle),
      nullptr, 0);
}

bool handle_CopyDevice(Session& session, const wire::CopyDeviceArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.memory().owns(args.destination, args.bytes) ||
      !session.memory().owns(args.source, args.bytes)) {
    return session.malformed(record, "not the guest's memory");
  }
  session.admission().admit(copy_cost(args.bytes));
  session.touch(stream);
  return session.complete(record,
                          session.driver().cuMemcpyDtoDAsync_v2(args.destination, args.source,
                                                                args.bytes, stream->handle),
                          nullptr, 0);
}

}  // namespace vgpu::server
