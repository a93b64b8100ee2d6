// What a guest's data connection has of the control plane: another one, when it is cut.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_RESUMER_H_
#define VGPU_NET_CONTROL_RESUMER_H_

#include <cstdint>
#include <memory>

#include "base/unique_fd.h"
#include "net/fabric/ends.h"

namespace vgpu::net {

// What asks over a lifeline for other data connections. It has the lifeline, which stays open for
// ever: closing it is what ends a session.
std::unique_ptr<Resumer> make_resumer(UniqueFd lifeline, FabricTarget first, uint32_t grace_ms);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_RESUMER_H_
