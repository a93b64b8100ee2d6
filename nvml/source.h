// Asking the server for figures.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NVML_SOURCE_H_
#define VGPU_NVML_SOURCE_H_

#include "base/status.h"
#include "protocol/session/figures.h"

namespace vgpu::nvml {

// On a connection of its own, which is closed again: no session, no worker, nothing that a fork
// would have to know of. Waits for a server that has just started and does not know its devices.
// VGPU_SERVER, VGPU_NAME, VGPU_MEM and VGPU_DEVICES mean what they mean to the guest library.
Result<protocol::FiguresReply> ask_server();

}  // namespace vgpu::nvml

#endif  // VGPU_NVML_SOURCE_H_
