// Starting and stopping a private server.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/private_server.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>

#include "base/clock.h"
#include "tools/vgpu/server_query.h"

namespace vgpu::tools {
namespace {

constexpr int kStartMsMax = 30'000;
constexpr int kStopMsMax = 5'000;
constexpr int kAskEveryMs = 10;

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "vgpu-").string();
  pattern += std::string(6, 'X');
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder like " + pattern);
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!keep_) std::filesystem::remove_all(path_, ignored);
}

PrivateServer::PrivateServer(const Places& places, const std::string& folder,
                             const std::string& driver, const Supervisor& supervisor,
                             const std::vector<std::string>& more)
    : supervisor_(supervisor), address_("unix:" + folder + "/vgpud.sock") {
  if (places.server.empty() || places.worker.empty()) {
    throw std::runtime_error("vgpud and vgpu-worker must be beside this program");
  }
  Environment environment = server_environment(current_environment(), places);
  if (!places.soft_library.empty()) environment["VGPU_SOFT_DRIVER"] = places.soft_library;
  std::vector<std::string> command{places.server, "--listen", address_, "--driver", driver};
  command.insert(command.end(), more.begin(), more.end());
  child_ = std::make_unique<Child>(command, environment);
  const uint64_t limit = monotonic_ns() + uint64_t{kStartMsMax} * 1'000'000;
  // It answers before its first worker has opened the device.
  while (query_server(address_).info.devices.empty()) {
    if (child_->ended() || monotonic_ns() > limit) {
      throw std::runtime_error("vgpud did not start; it said:\n" + log());
    }
    pause_ms(kAskEveryMs, supervisor_);
  }
}

PrivateServer::~PrivateServer() {
  try {
    stop();
  } catch (const std::exception&) {
    // Interrupted again while stopping: Child's destructor kills what is left.
  }
}

void PrivateServer::stop() {
  if (child_->ended()) return;
  uint32_t guests_left = 0;
  if (stop_server(address_, true, &guests_left).state != ServerState::kAnswers) {
    child_->signal(SIGTERM);
  }
  wait_for({child_.get()}, kStopMsMax, supervisor_);
}

}  // namespace vgpu::tools
