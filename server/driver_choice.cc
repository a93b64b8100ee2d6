// Finding and loading the driver.
// SPDX-License-Identifier: Apache-2.0
#include "server/driver_choice.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "api/driver_loader.h"
#include "base/env.h"
#include "base/unique_fd.h"
#include "server/program_path.h"

namespace vgpu::server {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
// Only the guest library looks for a server (protocol/transport/connect.cc).
constexpr char kGuestMark[] = "VGPU_SERVER";

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// Where the loader would find NVIDIA's library; our own shim among them is passed over.
std::string nvidia_path() {
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib",
        "/usr/local/nvidia/lib64", "/usr/lib", "/usr/local/cuda/compat"}) {
    const std::string path = std::string(folder) + "/" + kLibrary;
    if (exists(path) && !is_guest_library(path)) return path;
  }
  return "";
}

Result<DriverChoice> load(DriverKind kind, const std::string& path, std::string why) {
  if (is_guest_library(path)) {
    return Status(StatusCode::kInvalidArgument,
                  path + " is the guest library of vGPU, not a driver");
  }
  DriverChoice choice;
  choice.kind = kind;
  choice.path = path;
  choice.why = std::move(why);
  if (const char* error = load_driver_table(path.c_str(), &choice.table); error != nullptr) {
    return Status(StatusCode::kNotFound, path + ": " + error);
  }
  return choice;
}

Result<DriverChoice> load_soft(const std::string& why) {
  const std::string path = soft_driver_path();
  if (path.empty()) {
    return Status(StatusCode::kNotFound,
                  "the software GPU's libcuda.so.1 is not beside this program; VGPU_SOFT_DRIVER "
                  "may name it");
  }
  return load(DriverKind::kSoft, path, why);
}

// Empty when a GPU answers, else why not.
std::string no_gpu(const DriverTable& driver) {
  if (CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
    return "its cuInit gives " + std::to_string(static_cast<int>(result));
  }
  int count = 0;
  if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) return "it has no device";
  return "";
}

}  // namespace

const char* driver_kind_name(DriverKind kind) {
  switch (kind) {
    case DriverKind::kSoft:
      return "soft";
    case DriverKind::kNvidia:
      return "nvidia";
    case DriverKind::kOther:
      break;
  }
  return "other";
}

std::string soft_driver_path() {
  if (auto given = env_text("VGPU_SOFT_DRIVER")) return std::string(*given);
  const std::string folder = program_folder();
  for (const char* relative : {"/../lib/softgpu/", "/../lib/vgpu/softgpu/", "/softgpu/"}) {
    const std::string path = folder + relative + kLibrary;
    if (exists(path)) return path;
  }
  return "";
}

bool is_guest_library(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0 || info.st_size == 0) return false;
  const auto bytes = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return false;
  const bool found = memmem(data, bytes, kGuestMark, sizeof(kGuestMark)) != nullptr;
  munmap(data, bytes);
  return found;
}

std::string guest_library_in_environment() {
  const auto split = [](const char* text, const char* separators, auto&& visit) {
    std::string rest = text == nullptr ? "" : text;
    for (size_t at = 0; at < rest.size();) {
      const size_t end = std::min(rest.find_first_of(separators, at), rest.size());
      if (end > at) visit(rest.substr(at, end - at));
      at = end + 1;
    }
  };
  std::string found;
  split(std::getenv("LD_PRELOAD"), ": ", [&](const std::string& path) {
    if (found.empty() && is_guest_library(path)) found = path;
  });
  split(std::getenv("LD_LIBRARY_PATH"), ":;", [&](const std::string& folder) {
    const std::string path = folder + "/" + kLibrary;
    if (found.empty() && is_guest_library(path)) found = path;
  });
  return found;
}

Result<DriverChoice> choose_driver(const std::string& wanted) {
  if (wanted == "soft") return load_soft("asked for with --driver soft");
  const std::string nvidia = nvidia_path();
  if (wanted == "nvidia") {
    if (nvidia.empty()) {
      return Status(StatusCode::kNotFound, "NVIDIA's libcuda.so.1 is not installed here");
    }
    return load(DriverKind::kNvidia, nvidia, "asked for with --driver nvidia");
  }
  if (wanted != "auto") return load(DriverKind::kOther, wanted, "asked for with --driver");
  std::string why_not = "NVIDIA's libcuda.so.1 is not installed";
  if (!nvidia.empty()) {
    auto loaded = load(DriverKind::kNvidia, nvidia, "a GPU answers");
    why_not = loaded.ok() ? no_gpu(loaded->table) : loaded.status().text();
    if (why_not.empty()) return loaded;
    why_not = nvidia + " is installed, but " + why_not;
  }
  return load_soft(why_not);
}

}  // namespace vgpu::server
