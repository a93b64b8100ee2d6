// sysfs: vendor, device, enable, resource0 (registers), resource2 (the memory).
// SPDX-License-Identifier: Apache-2.0
#include "vm/region_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

namespace vgpu::vm {
namespace {

constexpr const char* kScheme = "ivshmem:";
constexpr uint64_t kVendor = 0x1af4;  // Red Hat
constexpr uint64_t kDevice = 0x1110;  // inter-VM shared memory

// A number that sysfs writes as 0x…; 0 when there is none.
uint64_t read_number(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[32] = {};
  if (!file.valid() || ::read(file.get(), text, sizeof(text) - 1) <= 0) return 0;
  return std::strtoull(text, nullptr, 16);
}

std::vector<std::string> list(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

Result<UniqueFd> open_memory(const std::string& path, uint64_t* bytes) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return Status::from_errno(errno, ("open " + path).c_str());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return Status::from_errno(errno, "fstat");
  *bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

Result<RegionFile> open_device(const std::string& folder) {
  RegionFile region;
  region.device = folder;
  // The device answers accesses to its memory only then. Busy: a driver has it, VFIO's of an agent
  // before this one, and enables it itself.
  const UniqueFd enable(::open((folder + "/enable").c_str(), O_WRONLY | O_CLOEXEC));
  if (!enable.valid() || (::write(enable.get(), "1", 1) != 1 && errno != EBUSY))
    return Status::from_errno(errno, ("enable " + folder).c_str());
  Result<UniqueFd> memory = open_memory(folder + "/resource2", &region.bytes);
  if (!memory.ok()) return memory.status();
  region.memory = std::move(memory).value();
  uint64_t register_bytes = 0;
  Result<UniqueFd> registers = open_memory(folder + "/resource0", &register_bytes);
  if (!registers.ok()) return registers.status();
  region.registers = std::move(registers).value();
  return region;
}

}  // namespace

Result<RegionFile> open_region(const std::string& address, const std::string& devices) {
  if (!address.starts_with(kScheme))
    return Status(StatusCode::kInvalidArgument, "a region's address begins with ivshmem:");
  const std::string which = address.substr(std::string(kScheme).size());
  if (which.starts_with('/')) {
    RegionFile region;
    Result<UniqueFd> memory = open_memory(which, &region.bytes);
    if (!memory.ok()) return memory.status();
    region.memory = std::move(memory).value();
    return region;
  }
  for (const std::string& name : list(devices)) {
    const std::string folder = devices + "/" + name;
    if (!which.empty() && which != name) continue;
    if (read_number(folder + "/vendor") == kVendor && read_number(folder + "/device") == kDevice)
      return open_device(folder);
  }
  return Status(StatusCode::kNotFound, "no ivshmem device " + which + " under " + devices);
}

}  // namespace vgpu::vm
