// Images from files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdio>
#include <vector>

namespace vgpu::softgpu {

// The file's bytes with a NUL behind them (PTX text needs one). CUDA_ERROR_FILE_NOT_FOUND when it
// cannot be read.
inline CUresult read_image_file(const char* path, std::vector<char>* bytes) {
  std::FILE* file = std::fopen(path, "rbe");
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  char block[16384];
  size_t got;
  while ((got = std::fread(block, 1, sizeof(block), file)) > 0)
    bytes->insert(bytes->end(), block, block + got);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  bytes->push_back('\0');
  return failed ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace vgpu::softgpu
