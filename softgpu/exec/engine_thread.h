// Starts the device's own threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace vgpu::softgpu {

inline constexpr size_t kEngineStackBytes = 1u << 20;

// Runs `body` on a detached thread that takes none of the program's signals (faults excepted) and
// is called `name` (at most 15 characters). False when the system gives no thread.
bool start_engine_thread(const char* name, std::function<void()> body,
                         size_t stack_bytes = kEngineStackBytes);

}  // namespace vgpu::softgpu
