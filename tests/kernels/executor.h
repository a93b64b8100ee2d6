// Runs PTX text without a device: by warps of 32 lanes, or thread by thread as a second opinion.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/program.h"

namespace vgpu::softgpu {

// kWarp: as the device runs blocks. kInterrupted: the same, and every turn of a loop ends the
// block's turn. kOne: every thread is compiled and run for itself, with barriers between turns of
// all threads; operations across the warp have no meaning there.
enum class Lanes { kWarp, kInterrupted, kOne };

struct Launch {
  Dim3 grid, block;
  Dim3 cluster{0, 0, 0};  // zeros: without clusters
  uint32_t dynamic_shared_bytes = 0;
  const void* params = nullptr;
};

// PTX text with room for its variables.
class TestModule {
 public:
  // Null and a text when the PTX is refused.
  static std::unique_ptr<TestModule> load(std::string_view ptx, std::string* error);
  // Index of a kernel; an empty name is the first one. -1 when there is none.
  int kernel(const std::string& name) const;
  // False and a text when the kernel is refused, faults or never ends.
  bool run(int kernel, Lanes lanes, const Launch& launch, std::string* error);

 private:
  void place_globals();
  bool run_warps(const CompiledKernel& kernel, Lanes lanes, const Launch& launch,
                 std::string* error);
  bool run_clusters(const CompiledKernel& kernel, const Launch& launch, std::string* error);
  bool run_threads(const CompiledKernel& kernel, const Launch& launch, std::string* error);

  std::shared_ptr<const Program> program_;
  std::map<std::string, std::vector<uint64_t>, std::less<>> globals_;
  std::unique_ptr<LoadedCode> code_;
};

// True when the text has operations that need the lanes of a warp together.
bool needs_whole_warps(std::string_view ptx);

}  // namespace vgpu::softgpu
