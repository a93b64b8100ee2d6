// The driver's linker.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/image_file.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::JitLog;
using softgpu::LinkState;

CUresult find_link(CUlinkState handle, std::shared_ptr<LinkState>* state) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  *state = Driver::instance().links.find(handle);
  return *state == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

bool options_valid(unsigned count, const CUjit_option* options, void** values) {
  if (count == 0) return true;
  if (options == nullptr || values == nullptr) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return false;
  }
  return true;
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                         CUlinkState* out) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || !options_valid(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  *out = Driver::instance().links.insert(
      std::make_shared<LinkState>(JitLog::from_options(count, options, values)));
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t bytes,
                          const char* name, unsigned int count, CUjit_option* options,
                          void** values) {
  std::shared_ptr<LinkState> state;
  if (const CUresult result = find_link(handle, &state); result != CUDA_SUCCESS) return result;
  if (data == nullptr || bytes == 0 || type >= CU_JIT_NUM_INPUT_TYPES ||
      !options_valid(count, options, values)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return state->add(type, data, bytes, name == nullptr ? "" : name);
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path,
                          unsigned int count, CUjit_option* options, void** values) {
  std::shared_ptr<LinkState> state;
  if (const CUresult result = find_link(handle, &state); result != CUDA_SUCCESS) return result;
  if (path == nullptr || type >= CU_JIT_NUM_INPUT_TYPES || !options_valid(count, options, values))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> bytes;
  if (const CUresult result = softgpu::read_image_file(path, &bytes); result != CUDA_SUCCESS)
    return result;
  return state->add(type, bytes.data(), bytes.size(), path);
}

CUresult cuLinkComplete(CUlinkState handle, void** image, size_t* bytes) {
  std::shared_ptr<LinkState> state;
  if (const CUresult result = find_link(handle, &state); result != CUDA_SUCCESS) return result;
  return image == nullptr ? CUDA_ERROR_INVALID_VALUE : state->complete(image, bytes);
}

CUresult cuLinkDestroy(CUlinkState handle) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  return Driver::instance().links.remove(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                            : CUDA_SUCCESS;
}

}  // namespace vgpu::driver
