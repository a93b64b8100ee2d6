// The log of failed calls, as a program reads it. Works before cuInit.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdio>
#include <memory>

#include "api/calls/error_log.h"
#include "driver_functions.h"

namespace vgpu::driver {

using calls::ErrorLog;
using calls::ErrorLogs;

CUresult cuLogsRegisterCallback(CUlogsCallback function, void* data, CUlogsCallbackHandle* handle) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t id = ErrorLogs::instance().callbacks.add(function, data);
  if (id == 0) return CUDA_ERROR_INVALID_VALUE;
  if (handle != nullptr) *handle = reinterpret_cast<CUlogsCallbackHandle>(id);
  return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  const bool there = ErrorLogs::instance().callbacks.remove(reinterpret_cast<uint64_t>(handle));
  return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLogsCurrent(CUlogIterator* iterator, unsigned flags) {
  if (iterator == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *iterator = ErrorLogs::instance().messages.end();
  return CUDA_SUCCESS;
}

// A file that is there is replaced.
CUresult cuLogsDumpToFile(CUlogIterator* iterator, const char* path, unsigned flags) {
  if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = ErrorLog::kDumpBytesMax;
  const auto text = std::make_unique<char[]>(bytes);
  CUlogIterator from = iterator != nullptr ? *iterator : 0;
  const CUresult r = ErrorLogs::instance().messages.dump(iterator != nullptr ? &from : nullptr,
                                                         text.get(), &bytes);
  if (r != CUDA_SUCCESS) return r;
  std::FILE* const file = std::fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool written = std::fwrite(text.get(), 1, bytes, file) == bytes;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) return CUDA_ERROR_INVALID_VALUE;
  if (iterator != nullptr) *iterator = from;
  return CUDA_SUCCESS;
}

CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size, unsigned flags) {
  if (buffer == nullptr || size == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return ErrorLogs::instance().messages.dump(iterator, buffer, size);
}

}  // namespace vgpu::driver
