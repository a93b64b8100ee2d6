// Name and description of every CUresult: what cuGetErrorName and cuGetErrorString answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu::cudart {

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};

// nullptr for a value that is no CUresult. Thread-safe; the strings live for ever.
const ErrorText* find_error(CUresult code);

}  // namespace vgpu::cudart
