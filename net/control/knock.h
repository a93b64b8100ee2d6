// Whether anybody listens at a server's address.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_KNOCK_H_
#define VGPU_NET_CONTROL_KNOCK_H_

#include <string>

namespace vgpu::net {

// True when the machine at `endpoint` ("tcp://NUMBERS:PORT") says within timeout_ms that nobody
// does. False when somebody does, and when nothing is known: no route, no answer.
bool nobody_listens(const std::string& endpoint, int timeout_ms);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_KNOCK_H_
