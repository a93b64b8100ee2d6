// Fills of device memory.
// SPDX-License-Identifier: Apache-2.0
#include "server/work.h"
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
  return session.submit(
      stream, record, [args](const DriverTable& driver, CUstream handle, const std::byte*) {
        switch (args.width) {
          case 1:
            return driver.cuMemsetD8Async(args.destination, static_cast<unsigned char>(args.value),
                                          args.count, handle);
          case 2:
            return driver.cuMemsetD16Async(
                args.destination, static_cast<unsigned short>(args.value), args.count, handle);
          default:
            return driver.cuMemsetD32Async(args.destination, args.value, args.count, handle);
        }
      });
}

}  // namespace vgpu::server
