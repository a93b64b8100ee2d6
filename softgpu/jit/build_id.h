// Tells one build of this library from another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace vgpu::softgpu {

// The linker's build id of the library or program that this code is part of, as raw bytes; "" when
// it was linked without one.
std::string own_build_id();

}  // namespace vgpu::softgpu
