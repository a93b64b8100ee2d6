// Fills of device memory.
// SPDX-License-Identifier: Apache-2.0
#include "server/foreign.h"
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

CUresult fill(const DriverTable& driver, const wire::FillArgs& args, CUstream stream) {
  switch (args.width) {
    case 1:
      return driver.cuMemsetD8Async(args.destination, static_cast<unsigned char>(args.value),
                                    args.count, stream);
    case 2:
      return driver.cuMemsetD16Async(args.destination, static_cast<unsigned short>(args.value),
                                     args.count, stream);
    default:
      return driver.cuMemsetD32Async(args.destination, args.value, args.count, stream);
  }
}

}  // namespace

bool handle_Fill(Session& session, const wire::FillArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (args.width != 1 && args.width != 2 && args.width != 4) {
    return session.malformed(record, "element width");
  }
  if (args.count > ~uint64_t{0} / args.width) return session.malformed(record, "element count");
  const uint64_t bytes = args.count * args.width;
  const int device = session.memory().device_of(args.destination, bytes, stream->context->device);
  if (device < 0 && !session.host_memory().contains(args.destination, bytes)) {
    return session.malformed(record, "not the guest's memory");
  }
  return session.submit(stream, record,
                        [args, place = WorkPlace(session, *stream, device)](
                            const DriverTable& driver, CUstream handle, const std::byte*) {
                          return place.run(driver, handle,
                                           [&](CUstream on) { return fill(driver, args, on); });
                        },
                        {.work = copy_work(scheduler::Engine::kCompute, bytes)});
}

}  // namespace vgpu::server
