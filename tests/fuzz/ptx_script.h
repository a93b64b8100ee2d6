// Engine of the PTX fuzzer: any text in, a trap when a promise is broken.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_PTX_SCRIPT_H_
#define VGPU_TESTS_FUZZ_PTX_SCRIPT_H_

#include <string_view>

namespace vgpu::softgpu {

// Parses the text and, when it is PTX, runs every pass before code generation on each kernel.
// Whatever is refused must say where (line and column inside the text) and why. Returns whether the
// text was PTX.
bool run_ptx_script(std::string_view text);

}  // namespace vgpu::softgpu

#endif  // VGPU_TESTS_FUZZ_PTX_SCRIPT_H_
