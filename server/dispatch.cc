// From a record to its handler: the generated switch over all commands.
// SPDX-License-Identifier: Apache-2.0
#include "op.h"
#include "server/session.h"
#include "server_handlers.h"
#include "wire.h"

namespace vgpu::server {

bool dispatch(Session& session, const Record& record) {
#include "server_dispatch.inc"
}

}  // namespace vgpu::server
