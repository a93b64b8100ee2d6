// Doors are unix sockets named PID-START, or PID-START.SESSION.
// SPDX-License-Identifier: Apache-2.0
#include "server/doors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::server {
namespace {

constexpr int kFieldOfStart = 22;  // in /proc/PID/stat, counted from 1

}  // namespace

std::string name_of_process(pid_t pid) {
  return std::to_string(pid) + "-" + std::to_string(start_of_process(pid));
}

UniqueFd open_named_process(const char* name, pid_t* pid) {
  int number = 0, end = 0;
  unsigned long start = 0;
  if (sscanf(name, "%d-%lu%n", &number, &start, &end) != 2 || name[end] != '\0' || number <= 1)
    return UniqueFd();
  Result<UniqueFd> process = protocol::open_pidfd(number);
  // In this order: a process that is held cannot be another one a moment later.
  if (!process.ok() || start == 0 || start_of_process(number) != start) return UniqueFd();
  *pid = number;
  return std::move(process).value();
}

uint64_t start_of_process(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t bytes = fd.valid() ? read(fd.get(), text, sizeof(text) - 1) : -1;
  if (bytes <= 0) return 0;
  const std::string line(text, static_cast<size_t>(bytes));
  size_t at = line.rfind(')');  // the name before it may hold anything
  for (int field = 2; field < kFieldOfStart && at != std::string::npos; ++field)
    at = line.find(' ', at + 1);
  return at == std::string::npos ? 0 : strtoull(line.c_str() + at, nullptr, 10);
}

Status Doors::open() const {
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    return Status::from_errno(errno, folder_.c_str());
  struct stat info {};
  if (lstat(folder_.c_str(), &info) != 0) return Status::from_errno(errno, folder_.c_str());
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return Status(StatusCode::kPermissionDenied,
                  folder_ + " must be a folder of this user, with mode 0700");
  }
  return ok_status();
}

Result<Doors::Door> Doors::make() {
  Door door;
  door.path = folder_ + "/new-" + std::to_string(getpid()) + "-" + std::to_string(++made_);
  Result<UniqueFd> listener = protocol::listen_unix(door.path, 0600);
  if (!listener.ok()) return listener.status();
  door.listener = std::move(listener).value();
  return door;
}

Result<std::string> Doors::name(const Door& door, pid_t pid, uint64_t number) const {
  const std::string behind = number == 0 ? "" : "." + std::to_string(number);
  const std::string path = folder_ + "/" + name_of_process(pid) + behind;
  if (rename(door.path.c_str(), path.c_str()) != 0) return Status::from_errno(errno, path.c_str());
  return path;
}

std::vector<FoundWorker> Doors::find() const {
  std::vector<FoundWorker> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder_.c_str()), closedir);
  if (listing == nullptr) return all;
  while (const dirent* const entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string path = folder_ + "/" + name;  // also one that was being made
    FoundWorker found;
    found.process = open_named_process(name.substr(0, name.find('.')).c_str(), &found.pid);
    if (!found.process.valid()) {
      (void)unlink(path.c_str());
      continue;
    }
    Result<UniqueFd> connection = protocol::connect_unix(path);
    if (!connection.ok()) {
      // Any other failure is ours: the worker behind it may live.
      if (connection.status().os_error() == ECONNREFUSED) (void)unlink(path.c_str());
      continue;
    }
    found.connection = std::move(connection).value();
    found.door = path;
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace vgpu::server
