// Engine of the image fuzzer: any bytes in, a trap when a promise is broken.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_IMAGE_SCRIPT_H_
#define VGPU_TESTS_FUZZ_IMAGE_SCRIPT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vgpu::cudart {

// The bytes as an image that came through the channel, and, where they measure as a container, as a
// program's own image behind wrappers of both versions. Returns whether they measure as an image.
bool run_image_script(std::span<const uint8_t> bytes);

// Well-formed images of every kind: text, cubin, containers that are plain, LZ4 and zstd.
std::vector<std::string> image_seeds();

}  // namespace vgpu::cudart

#endif  // VGPU_TESTS_FUZZ_IMAGE_SCRIPT_H_
