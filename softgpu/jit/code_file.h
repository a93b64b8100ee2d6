// The files of the cache of compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "softgpu/jit/code_cache.h"

namespace vgpu::softgpu {

// What a file holds: a head with a checksum of all that follows, the key, symbol names, the object.
std::string pack_code(const std::string& key, const ObjectCode& code);
// False when anything does not fit: another format, another key, a wrong length or checksum.
bool unpack_code(const std::string& text, const std::string& key, ObjectCode* code);
// Whether a file name is one that a key makes: 32 hexadecimal digits.
bool is_code_name(const std::string& name);

}  // namespace vgpu::softgpu
