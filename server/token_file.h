// The file of tenants' tokens.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_TOKEN_FILE_H_
#define VGPU_SERVER_TOKEN_FILE_H_

#include <map>
#include <string>

#include "base/status.h"

namespace vgpu::server {

inline constexpr size_t kTokenFileBytesMax = 1 << 20;

// Lines "tenant token"; empty lines and those that begin with '#' say nothing. Refused when it is
// no plain file, another user's (neither root's nor ours), or when others may read or write it.
// Errors name the file and the line, never a token.
Result<std::map<std::string, std::string>> read_token_file(const std::string& path);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_TOKEN_FILE_H_
