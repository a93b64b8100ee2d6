// A server inside the guest's own process, for tests: one session on a thread, over loop.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LOOP_H_
#define VGPU_SERVER_LOOP_H_

#include "protocol/session/handshake.h"

namespace vgpu::shim {

// What the shim calls when its address is "loop:" (declared weak there; only vgpu_loop has it).
// Loads the software GPU beside the program's own libraries (RTLD_LOCAL) and starts a session on a
// thread, which lives as long as the process. Once per process: a second call is refused.
protocol::Attachment attach_loop(const protocol::Hello& hello);

}  // namespace vgpu::shim

#endif  // VGPU_SERVER_LOOP_H_
