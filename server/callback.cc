// Functions of the guest's in its streams.
// SPDX-License-Identifier: Apache-2.0
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_HostFunction(Session& session, const wire::HostFunctionArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (args.kind > 1) return session.malformed(record, "kind of function");
  const DriverTable& driver = session.driver();
  if (driver.cuLaunchHostFunc == nullptr || driver.cuStreamWaitValue32_v2 == nullptr) {
    return session.refuse(record, "cuLaunchHostFunc");
  }
  HostPoint* point = nullptr;
  const CUresult taken = session.in_primary(
      [&] { return session.host_calls().take(driver, args.call, stream->context, false, &point); });
  if (taken != CUDA_SUCCESS) {
    if (args.kind == 1 && is_sticky(taken)) session.host_calls().tell(args.call, taken);
    return session.forgotten(record, taken);
  }
  return session.submit(stream, record,
                        [calls = &session.host_calls(), point, told = args.kind == 1](
                            const DriverTable& table, CUstream handle, const std::byte*) {
                          return calls->place(table, handle, point, told);
                        },
                        {.weight = 2});
}

}  // namespace vgpu::server
