// Fills of device memory.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_Fill(Session& session, const wire::FillArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (args.width != 1 && args.width != 2 && args.width != 4) {
    return session.malformed(record, "element width");
  }
  if (args.count > ~uint64_t{0} / args.width) return session.malformed(record, "element count");
  const uint64_t bytes = args.count * args.width;
  if (!session.memory().owns(args.destination, bytes) &&
      !session.host_memory().contains(args.destination, bytes)) {
    return session.malformed(record, "not the guest's memory");
  }
  session.admission().admit(copy_cost(bytes));
  session.touch(stream);
  const DriverTable& driver = session.driver();
  CUresult result;
  if (args.width == 1) {
    result = driver.cuMemsetD8Async(args.destination, static_cast<unsigned char>(args.value),
                                    args.count, stream->handle);
  } else if (args.width == 2) {
    result = driver.cuMemsetD16Async(args.destination, static_cast<unsigned short>(args.value),
                                     args.count, stream->handle);
  } else {
    result = driver.cuMemsetD32Async(args.destination, args.value, args.count, stream->handle);
  }
  return session.complete(record, result, nullptr, 0);
}

}  // namespace vgpu::server
