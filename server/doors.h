// Doors: sockets at which a later vgpud finds the workers of an earlier one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_DOORS_H_
#define VGPU_SERVER_DOORS_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::server {

// A worker that is found: its process, as the kernel knows it, and a connection to it.
struct FoundWorker {
  pid_t pid = 0;
  UniqueFd process;  // pidfd
  UniqueFd connection;
  std::string door;  // path
  uid_t user = 0;    // that it runs as
};

// The folder of doors beside vgpud's own socket, for its user alone: whoever answers there was
// given its door by a vgpud. A worker is found by its server, so it never connects to anything
// itself.
class Doors {
 public:
  // A door without a name yet, for a worker that is about to start.
  struct Door {
    UniqueFd listener;
    std::string path;
  };

  explicit Doors(const std::string& listen_path) : folder_(listen_path + ".workers") {}

  // Makes the folder; kPermissionDenied when it is somebody else's or open to others.
  Status open() const;
  // Removes the folder when no worker is left that a later server could look for.
  void close() const { (void)rmdir(folder_.c_str()); }
  Result<Door> make();
  // Names the door after the process that has it now. The path is what is to be removed one day.
  // `number`: of several doors of one process, not 0.
  Result<std::string> name(const Door& door, pid_t pid, uint64_t number = 0) const;
  // Knocks at all doors, and removes those behind which nobody is.
  std::vector<FoundWorker> find() const;

 private:
  std::string folder_;
  uint64_t made_ = 0;
};

// When process `pid` was started, in the kernel's ticks since boot; 0: there is no such process.
// With the pid it names a process once and for all.
uint64_t start_of_process(pid_t pid);
// That as the name of a file, and the process that such a name names while it still is that one;
// invalid: it is gone, or the name is none.
std::string name_of_process(pid_t pid);
UniqueFd open_named_process(const char* name, pid_t* pid);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_DOORS_H_
