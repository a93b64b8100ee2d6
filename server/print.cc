// What the guest's kernels print, on its way to the guest.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

void Session::print_idle(Context* context) {
  const Rundown::Use use(&context->use);
  if (!use) return;
  (void)driver().cuCtxSetCurrent(context->handle);
  (void)driver().cuCtxSynchronize();
}

bool handle_OutputFetch(Session& session, const wire::OutputFetchArgs& args, const Record& record) {
  const auto room =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.slab_bytes);
  if (!room) return session.malformed(record, "slab range");
  if (args.kind > 1) return session.malformed(record, "kind of output");
  wire::OutputFetchReply reply;
  if (Output* const output = session.config().output; output != nullptr) {
    reply.bytes = output->fetch(args.kind == 1, *room);
    reply.passed = output->passed();
  }
  return session.complete(record, CUDA_SUCCESS, &reply, sizeof(reply));
}

}  // namespace vgpu::server
