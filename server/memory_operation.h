// Waits for values and writes of them, in streams and in graphs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_MEMORY_OPERATION_H_
#define VGPU_SERVER_MEMORY_OPERATION_H_

#include "server/session.h"
#include "wire.h"

namespace vgpu::server {

// nullptr, or why the guest may not do that. The consumer.
const char* check_memory_operation(Session& session, const wire::StreamMemoryArgs& args);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_MEMORY_OPERATION_H_
