// Launches as CUDA 3 had them: shape and parameters are set at the function, then it is launched.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "api/graph/backend.h"
#include "driver_functions.h"

namespace vgpu::driver {
namespace {

constexpr size_t kParamBytesMax = 32764;  // what a kernel may have
constexpr size_t kFunctionsMax = 1024;    // beyond that, those of unloaded modules are looked for

// What was set at one function.
struct Settings {
  unsigned block[3] = {};  // 0: not set yet
  unsigned shared_bytes = 0;
  std::vector<std::byte> params;  // up to where any was set
  size_t param_bytes = 0;
};

// Handles are never given out twice, so what is kept of a function that has gone is found by
// nobody.
struct AllSettings {
  static AllSettings& instance() {
    static AllSettings* const all = new AllSettings();  // NOLINT: calls come at exit
    return *all;
  }
  std::mutex mutex;
  std::map<CUfunction, Settings> of;
};

CUresult check_function(CUfunction function) {
  CUcontext current = nullptr;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  int value = 0;
  return driver::cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
}

template <typename Change>
CUresult change(CUfunction function, const Change& apply) {
  if (const CUresult r = check_function(function); r != CUDA_SUCCESS) return r;
  AllSettings& all = AllSettings::instance();
  std::lock_guard lock(all.mutex);
  if (all.of.size() >= kFunctionsMax) {
    std::erase_if(all.of,
                  [](const auto& each) { return check_function(each.first) != CUDA_SUCCESS; });
  }
  return apply(&all.of[function]);
}

CUresult set_param(CUfunction function, int offset, const void* from, size_t bytes) {
  return change(function, [&](Settings* settings) {
    if (offset < 0 || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto at = static_cast<size_t>(offset);
    if (at > kParamBytesMax || bytes > kParamBytesMax - at) return CUDA_ERROR_INVALID_VALUE;
    if (settings->params.size() < at + bytes) settings->params.resize(at + bytes);
    std::memcpy(settings->params.data() + at, from, bytes);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  return change(function, [&](Settings* settings) {
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    const int shape[] = {x, y, z};
    std::copy_n(shape, 3, settings->block);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  return change(function,
                [&](Settings* settings) { return settings->shared_bytes = bytes, CUDA_SUCCESS; });
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
  return change(function, [&](Settings* settings) {
    if (bytes > kParamBytesMax) return CUDA_ERROR_INVALID_VALUE;
    settings->param_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
  return set_param(function, offset, &value, sizeof(value));
}

CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return set_param(function, offset, &value, sizeof(value));
}

CUresult cuParamSetv(CUfunction function, int offset, void* from, unsigned bytes) {
  return set_param(function, offset, from, bytes);
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  Settings settings;
  const CUresult r = change(function, [&](const Settings* set) {
    settings = *set;
    return CUDA_SUCCESS;
  });
  if (r != CUDA_SUCCESS) return r;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  settings.params.resize(settings.param_bytes);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, settings.params.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &settings.param_bytes, CU_LAUNCH_PARAM_END};
  const unsigned* const block = settings.block;
  return driver::cuLaunchKernel(function, static_cast<unsigned>(width),
                                static_cast<unsigned>(height), 1, block[0], block[1], block[2],
                                settings.shared_bytes, stream, nullptr,
                                settings.param_bytes == 0 ? nullptr : extra);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return driver::cuLaunchGridAsync(function, width, height, nullptr);
}

CUresult cuLaunch(CUfunction function) { return driver::cuLaunchGrid(function, 1, 1); }

}  // namespace vgpu::driver
