// A guest's side of the plain rendezvous: for the plug-in, and for guests written by hand.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_NET_PLAIN_MEET_H_
#define VGPU_TESTS_NET_PLAIN_MEET_H_

#include <memory>
#include <string>

#include "net/fabric/ends.h"
#include "tests/net/plain_order.h"

namespace vgpu::net {

struct Met {
  protocol::HelloReply reply;
  FabricTarget target;
};

// Asks the plain_gate at `path` for a session. kRefused: the CUresult is the os_error.
Result<Met> meet(const std::string& path, const protocol::Hello& hello, int timeout_ms);

}  // namespace vgpu::net

#endif  // VGPU_TESTS_NET_PLAIN_MEET_H_
