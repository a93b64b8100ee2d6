// Boxes of a guest as the driver is told: for copies in streams and in graphs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_RECT_H_
#define VGPU_SERVER_RECT_H_

#include "server/session.h"
#include "wire.h"

namespace vgpu::server {

// The devices, by the guest's numbers, that have the ends of a copy; -1: the host.
struct EndDevices {
  int to = -1, from = -1;
};

// nullptr, or why the guest may not do that. The consumer.
const char* resolve_copy(Session& session, const Context* context, const wire::RectCopyArgs& args,
                         CUDA_MEMCPY3D* copy, EndDevices* devices = nullptr);
const char* check_fill(Session& session, const wire::RectFillArgs& args);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_RECT_H_
