// posix_spawn with a socket pair.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "protocol/transport/control_socket.h"

extern char** environ;

namespace vgpu::protocol {
namespace {

// Small integers may be taken as the target of the dup2 below: the original must lie above.
Result<UniqueFd> lifted(UniqueFd fd) {
  UniqueFd high(fcntl(fd.get(), F_DUPFD_CLOEXEC, 10));
  if (!high.valid()) return Status::from_errno(errno, "F_DUPFD_CLOEXEC");
  return high;
}

// Ours, without what `settings` says anew.
std::vector<char*> environment(std::vector<std::string>* settings) {
  std::vector<char*> all;
  for (std::string& setting : *settings) all.push_back(setting.data());
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view word(*each);
    const std::string_view name = word.substr(0, word.find('='));
    const bool replaced =
        std::any_of(settings->begin(), settings->end(), [&](const std::string& setting) {
          return std::string_view(setting).substr(0, setting.find('=')) == name;
        });
    if (!replaced) all.push_back(*each);
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<Spawned> spawn(const std::string& program, const std::vector<std::string>& arguments,
                      std::span<const int> more, std::span<const std::string> settings) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return Status::from_errno(errno, "socketpair");
  }
  Spawned spawned;
  spawned.control.reset(pair[0]);
  Result<UniqueFd> child_end = lifted(UniqueFd(pair[1]));
  if (!child_end.ok()) return child_end.status();
  std::vector<UniqueFd> high;
  for (const int fd : more) {
    high.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 10));
    if (!high.back().valid()) return Status::from_errno(errno, "F_DUPFD_CLOEXEC");
  }

  std::vector<std::string> words = {program, "--control", "3"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> own(settings.begin(), settings.end());
  const std::vector<char*> envp = environment(&own);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, child_end->get(), 3);
  for (size_t i = 0; i < high.size(); ++i)
    posix_spawn_file_actions_adddup2(&actions, high[i].get(), static_cast<int>(4 + i));
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  const int error =
      posix_spawn(&spawned.pid, program.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Status::from_errno(error, program.c_str());
  Result<UniqueFd> process = open_pidfd(spawned.pid);
  if (!process.ok()) {
    (void)kill(spawned.pid, SIGKILL);
    (void)waitpid(spawned.pid, nullptr, 0);
    return process.status();
  }
  spawned.process = std::move(process).value();
  return spawned;
}

}  // namespace vgpu::protocol
