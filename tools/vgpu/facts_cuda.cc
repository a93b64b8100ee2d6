// Looking for NVIDIA's driver and a CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tools/vgpu/doctor.h"
#include "tools/vgpu/run.h"

namespace vgpu::tools {
namespace {

constexpr const char* kLibraryFolders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
    "/usr/lib/wsl/lib",          "/usr/local/nvidia/lib64",    "/usr/lib"};
constexpr const char* kToolkitFolders[] = {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"};
constexpr int kDevicesMax = 64;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun …": the word that is a version.
std::string driver_version() {
  const std::string line = first_line("/proc/driver/nvidia/version");
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
    at = end + 1;
  }
  return "";
}

}  // namespace

CudaFacts gather_cuda_facts() {
  CudaFacts facts;
  facts.driver_version = driver_version();
  for (const char* folder : kLibraryFolders) {
    const std::string path = std::string(folder) + "/libcuda.so.1";
    if (facts.driver_library.empty() && exists(path)) facts.driver_library = path;
  }
  for (int i = 0; i < kDevicesMax; ++i) {
    if (exists("/dev/nvidia" + std::to_string(i))) ++facts.device_files;
  }
  const std::string hmm = first_line("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm");
  facts.hmm_known = !hmm.empty();
  facts.hmm_disabled = hmm == "Y" || hmm == "1";
  bool denied = false;
  const char* path = std::getenv("PATH");
  facts.nvcc = find_executable("nvcc", path != nullptr ? path : "", &denied);
  for (const char* folder : kToolkitFolders) {
    const std::string root(folder);
    if (facts.nvcc.empty() && exists(root + "/bin/nvcc")) facts.nvcc = root + "/bin/nvcc";
    if (facts.runtime.empty() && exists(root + "/lib64/libcudart.so")) {
      facts.runtime = root + "/lib64/libcudart.so";
    }
  }
  return facts;
}

}  // namespace vgpu::tools
