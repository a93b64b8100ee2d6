// Marks the thread that runs a host function: CUDA calls are not permitted there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace vgpu::softgpu {

inline thread_local bool inside_host_function = false;

}  // namespace vgpu::softgpu
