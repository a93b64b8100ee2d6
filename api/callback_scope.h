// Marks the thread that runs a host function: CUDA calls are not permitted there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace vgpu {

inline thread_local bool inside_host_function = false;

// Around the program's function.
class HostFunctionScope {
 public:
  HostFunctionScope() { inside_host_function = true; }
  ~HostFunctionScope() { inside_host_function = false; }
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace vgpu
