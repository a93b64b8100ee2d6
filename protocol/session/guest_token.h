// The tenant's token that a guest's environment names.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_GUEST_TOKEN_H_
#define VGPU_PROTOCOL_SESSION_GUEST_TOKEN_H_

#include <string>

namespace vgpu::protocol {

// VGPU_TOKEN, else the first word of the file that VGPU_TOKEN_FILE names; else empty. A file that
// cannot be read is logged.
std::string guest_token();

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_GUEST_TOKEN_H_
