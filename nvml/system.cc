// The library itself and the system: nvmlInit*, nvmlSystem*.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "nvml/library.h"
#include "nvml_functions.h"

namespace vgpu::nvml::answer {

nvmlReturn_t nvmlInit_v2() { return Library::instance().initialize(); }

// The flags say what to do about GPUs that cannot be attached: there are none such here.
nvmlReturn_t nvmlInitWithFlags(unsigned int) { return Library::instance().initialize(); }

nvmlReturn_t nvmlShutdown() { return Library::instance().shut_down(); }

// The texts of NVIDIA's documentation, which programs show to people.
const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED:
      return "Already Initialized";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER:
      return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_IRQ_ISSUE:
      return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM:
      return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
      return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "The operating system has blocked the request.";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "RM has detected an NVML/RM version mismatch.";
    case NVML_ERROR_IN_USE:
      return "GPU is in use";
    case NVML_ERROR_MEMORY:
      return "Insufficient Memory";
    case NVML_ERROR_NO_DATA:
      return "No data";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    case NVML_ERROR_DEPRECATED:
      return "Deprecated";
    case NVML_ERROR_NOT_READY:
      return "Not Ready";
    case NVML_ERROR_GPU_NOT_FOUND:
      return "GPU Not Found";
    case NVML_ERROR_INVALID_STATE:
      return "Invalid State";
    default:
      return "Unknown Error";
  }
}

// Of NVIDIA's kernel module on the server's machine. The software GPU has none: vGPU's version.
nvmlReturn_t nvmlSystemGetDriverVersion(const Call& call, char* version, unsigned int length) {
  const protocol::FiguresReply& figures = call.figures();
  return put_text(figures.driver_release.empty() ? figures.server_version : figures.driver_release,
                  version, length);
}

// As NVIDIA's: the major version of its interface, then that of the driver.
nvmlReturn_t nvmlSystemGetNVMLVersion(const Call& call, char* version, unsigned int length) {
  const protocol::FiguresReply& figures = call.figures();
  return put_text(
      std::to_string(NVML_API_VERSION) + "." +
          (figures.driver_release.empty() ? figures.server_version : figures.driver_release),
      version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const int found = Library::instance().cuda_version();
  if (found == 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  *version = found;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

// What the process was started as, cut to fit, as NVML cuts it.
nvmlReturn_t nvmlSystemGetProcessName(const Call&, unsigned int pid, char* name,
                                      unsigned int length) {
  if (length == 0 || name == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
  char text[1024];
  const ssize_t bytes = ::read(file.get(), text, sizeof(text) - 1);
  if (bytes < 0) return NVML_ERROR_NOT_FOUND;
  text[bytes] = '\0';  // arguments follow behind a zero of their own
  std::string first(text);
  if (first.size() >= length) first.resize(length - 1);
  return put_text(first, name, length);
}

nvmlReturn_t nvmlUnitGetCount(const Call&, unsigned int* count) {
  *count = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int* count) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace vgpu::nvml::answer
