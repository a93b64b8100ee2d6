// Images from files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdio>
#include <string>
#include <vector>

#include "api/cudart/image.h"

namespace vgpu::softgpu {

// The file's bytes with a NUL behind them (PTX text needs one). CUDA_ERROR_FILE_NOT_FOUND when it
// cannot be read, CUDA_ERROR_INVALID_IMAGE when it ends before the image in it does.
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
  if (failed) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string why;
  return cudart::check_image(bytes->data(), bytes->size() - 1, &why) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace vgpu::softgpu
