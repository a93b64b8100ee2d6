// How much device memory the variables of an image take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "api/cudart/image.h"

namespace vgpu::cudart {

// More than any device has: what a text says in a way that is not understood here.
inline constexpr uint64_t kUnknownBytes = ~uint64_t{0};

// Each variable begins at a multiple of this, or of more where it says so.
inline constexpr uint64_t kVariableAlignment = 16;

// Bytes of the variables in global and constant memory that a driver makes when it loads the image
// on a device of `capability` (121 = 12.1): of the PTX or of the machine code, whichever are more.
// Managed ones count, wherever their pages are.
// The images are of a peer: nothing is believed.
uint64_t variable_bytes(const std::vector<Image>& images, uint32_t capability);

// The same of one text, and of one cubin.
uint64_t ptx_variable_bytes(std::string_view text);
uint64_t cubin_variable_bytes(std::string_view cubin);

}  // namespace vgpu::cudart
