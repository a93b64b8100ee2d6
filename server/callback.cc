// Functions of the guest's in its streams.
// SPDX-License-Identifier: Apache-2.0
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {

// Callbacks of a broken context that may wait for a guest to take them.
constexpr size_t kWaitingMax = 1 << 18;

bool handle_HostFunction(Session& session, const wire::HostFunctionArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (args.kind > 1) return session.malformed(record, "kind of function");
  const DriverTable& driver = session.driver();
  if (driver.cuLaunchHostFunc == nullptr || driver.cuStreamWaitValue32_v2 == nullptr) {
    return session.refuse(record, "cuLaunchHostFunc");
  }
  HostCalls& calls = session.host_calls();
  // relaxed: whether to look at all.
  if (stream->context->faulted.load(std::memory_order_relaxed) && calls.waiting() > kWaitingMax)
    return session.malformed(record, "more callbacks than are called");
  HostPoint* point = nullptr;
  const auto take = [&] { return calls.take(driver, args.call, stream->context, false, &point); };
  const CUresult taken = calls.needs_memory(false) ? session.make_at_home(take) : take();
  if (taken != CUDA_SUCCESS) {
    if (args.kind == 1 && is_sticky(taken)) calls.tell(args.call, taken);
    return session.forgotten(record, taken);
  }
  return session.submit(stream, record,
                        [calls = &calls, point, told = args.kind == 1](
                            const DriverTable& table, CUstream handle, const std::byte*) {
                          return calls->place(table, handle, point, told);
                        },
                        {.weight = 2});
}

}  // namespace vgpu::server
