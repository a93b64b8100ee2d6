// Being one of several: what the router of a guest with several servers tells this copy.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_SERVER_LIBRARY_H_
#define VGPU_SHIM_SERVER_LIBRARY_H_

#include <cuda.h>

#include <string>

#include "protocol/transport/connect.h"

namespace vgpu::shim {

// Whether this is a copy in a guest of several servers.
bool is_one_of_several();
// Where the server is: as the router says, else as the environment does.
Result<protocol::Address> server_address();
// Where the network's plug-in is. A copy's own file has no folder.
std::string network_plugin();
// The router's way in, when that is what `id` names; else null.
const void* server_library_table(const CUuuid* id);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_SERVER_LIBRARY_H_
