// Folders and processes of MPS control daemons.
// SPDX-License-Identifier: Apache-2.0
#include "server/mps_daemon.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/env.h"
#include "protocol/transport/control_socket.h"
#include "server/doors.h"
#include "server/run_as.h"

namespace vgpu::server {
namespace {

constexpr uint32_t kFoldersMax = 65'536;

// Everything that is in a folder of the server's own.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* const entry = listing == nullptr ? nullptr : readdir(listing.get()))
    names.emplace_back(entry->d_name);
  return names;
}

Status make_owned(const std::string& folder, uid_t user) {
  if (mkdir(folder.c_str(), 0700) != 0) return Status::from_errno(errno, folder.c_str());
  if (user != 0 && chown(folder.c_str(), user, user) != 0)
    return Status::from_errno(errno, folder.c_str());
  return ok_status();
}

}  // namespace

Result<uint32_t> MpsFolders::make(uid_t user) const {
  // Passable, not readable: the daemon's user must come to its own.
  if (mkdir(root_.c_str(), 0711) != 0 && errno != EEXIST)
    return Status::from_errno(errno, root_.c_str());
  struct stat info {};
  if (lstat(root_.c_str(), &info) != 0) return Status::from_errno(errno, root_.c_str());
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0)
    return Status(StatusCode::kPermissionDenied, root_ + " must be a folder of this user alone");
  for (uint32_t number = 1; number < kFoldersMax; ++number) {
    if (mkdir(path(number).c_str(), 0711) != 0) {
      if (errno == EEXIST) continue;
      return Status::from_errno(errno, path(number).c_str());
    }
    // Whatever the mask of new files is.
    (void)chmod(root_.c_str(), 0711);
    (void)chmod(path(number).c_str(), 0711);
    VGPU_RETURN_IF_ERROR(make_owned(path(number) + "/pipe", user));
    VGPU_RETURN_IF_ERROR(make_owned(path(number) + "/log", user));
    return number;
  }
  return Status(StatusCode::kResourceExhausted, root_ + " is full");
}

std::vector<uint32_t> MpsFolders::numbers() const {
  std::vector<uint32_t> all;
  for (const std::string& name : names_in(root_)) {
    const auto number = parse_integer(name);
    if (number && *number > 0 && *number < kFoldersMax)
      all.push_back(static_cast<uint32_t>(*number));
  }
  return all;
}

uid_t MpsFolders::user_of(uint32_t number) const {
  struct stat info {};
  return lstat((path(number) + "/pipe").c_str(), &info) == 0 ? info.st_uid : 0;
}

void MpsFolders::remove(uint32_t number) const {
  std::error_code ignored;
  (void)std::filesystem::remove_all(path(number), ignored);
  (void)rmdir(root_.c_str());  // the last one's
}

Result<std::unique_ptr<MpsDaemon>> MpsDaemon::create(const std::string& program,
                                                     const MpsFolders& folders, uint32_t number,
                                                     uid_t user) {
  Result<std::unique_ptr<Errands>> errands = Errands::create();
  if (!errands.ok()) return errands.status();
  const std::string folder = folders.path(number);
  return std::unique_ptr<MpsDaemon>(
      new MpsDaemon(MpsControl(program, folder + "/pipe", folder + "/log", user), folder, number,
                    user, std::move(errands).value()));
}

Status MpsDaemon::start() {
  Program wanted;
  wanted.path = control_.program();
  wanted.arguments = {"-f"};  // in the foreground: its end is told
  wanted.settings = control_.settings();
  wanted.user = user_;
  Result<pid_t> pid = run_as(wanted);
  if (!pid.ok()) return pid.status();
  Result<UniqueFd> process = protocol::open_pidfd(*pid);
  if (!process.ok()) {
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, nullptr, 0);
    return process.status();
  }
  pid_ = *pid;
  child_ = true;
  process_ = std::move(process).value();
  state_ = State::kStarting;
  marker_ = folder_ + "/" + name_of_process(pid_);
  // Without it the next server could not take the daemon over, but would start another.
  const UniqueFd marker(open(marker_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
  return marker.valid() ? ok_status() : Status::from_errno(errno, marker_.c_str());
}

bool MpsDaemon::find() {
  for (const std::string& name : names_in(folder_)) {
    pid_t pid = 0;
    UniqueFd process = open_named_process(name.c_str(), &pid);
    if (!process.valid()) {
      (void)unlink((folder_ + "/" + name).c_str());  // a folder stays
      continue;
    }
    pid_ = pid;
    child_ = false;
    process_ = std::move(process);
    marker_ = folder_ + "/" + name;
    state_ = State::kReady;
    return true;
  }
  return false;
}

void MpsDaemon::ended() {
  if (child_) (void)waitpid(pid_, nullptr, 0);
  (void)unlink(marker_.c_str());
  process_.reset();
  pid_ = 0;
  child_ = false;
  state_ = State::kDown;
}

void MpsDaemon::kill_hard() const {
  (void)syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
}

std::vector<std::string> MpsDaemon::client_settings(uint32_t thread_percent,
                                                    const WorkerGrants& grants,
                                                    const std::vector<int32_t>& ordinals) const {
  std::string limits;
  for (size_t i = 0; i < std::min<size_t>(grants.count, ordinals.size()); ++i) {
    const uint64_t bytes = grants.bytes[i] + kMpsContextBytes;
    limits += (limits.empty() ? "" : ",") + std::to_string(ordinals[i]) + "=" +
              std::to_string(bytes >> 20) + "M";
  }
  return {"CUDA_MPS_PIPE_DIRECTORY=" + pipe_directory(),
          "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + std::to_string(thread_percent),
          "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + limits};
}

}  // namespace vgpu::server
