// Where this program's file lies.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_PROGRAM_PATH_H_
#define VGPU_SERVER_PROGRAM_PATH_H_

#include <unistd.h>

#include <climits>
#include <string>

namespace vgpu::server {

// Folder of the running program, without a slash at the end; "." when the system does not say.
inline std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
  if (bytes <= 0) return ".";
  const std::string whole(path, static_cast<size_t>(bytes));
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_PROGRAM_PATH_H_
