// What vgpu doctor says of servers on a network.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_DOCTOR_NETWORK_H_
#define VGPU_TOOLS_VGPU_DOCTOR_NETWORK_H_

#include <string>
#include <vector>

#include "tools/vgpu/doctor.h"

namespace vgpu::tools {

struct NetworkFacts {
  bool remote = false;       // the server in question is one
  std::string plugin_error;  // why the plug-in does not load; empty: it does
  std::string plugin;        // path; empty: it is not there
  // Of each: why it cannot be used; empty: it can. Only looked at for a remote server.
  std::string guest_key, guest_key_problem;
  std::string server_key_problem;
  // Of a server's own files on this machine; paths empty: there are none.
  std::string own_key, own_key_problem;
  std::string authorized, authorized_problem;
  size_t admitted = 0;
};
NetworkFacts gather_network_facts(const std::string& server, const Places& places);

std::vector<Finding> judge_network(const NetworkFacts& facts);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_DOCTOR_NETWORK_H_
