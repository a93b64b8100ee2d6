// A link in progress: PTX texts on their way to one program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <mutex>
#include <string>
#include <vector>

#include "softgpu/api/module_object.h"

namespace vgpu::softgpu {

class LinkState {
 public:
  explicit LinkState(const JitLog& log) : log_(log) {}

  // Takes the PTX out of one input. Errors as cuLinkAddData documents them.
  CUresult add(CUjitInputType type, const void* data, size_t bytes, const std::string& name);
  // Checks that the texts fit together; the image then holds all of them and lives as long as this.
  CUresult complete(void** image, size_t* bytes);

 private:
  CUresult add_text(std::string text, const std::string& name);
  CUresult add_containers(const char* bytes, size_t size, bool must_have);
  CUresult refuse(CUresult code, const std::string& text);

  const JitLog log_;
  std::mutex mutex_;
  std::vector<std::string> texts_;
  std::string log_text_;
  std::vector<uint64_t> image_;
};

}  // namespace vgpu::softgpu
