// A vgpud of one's own in a temporary folder, for demo and bench.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_PRIVATE_SERVER_H_
#define VGPU_TOOLS_VGPU_PRIVATE_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "tools/vgpu/child.h"
#include "tools/vgpu/places.h"

namespace vgpu::tools {

// A folder that is removed with everything in it, unless kept.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_ = false;
};

// Runs from the constructor (which returns when the server has its device, and throws
// std::runtime_error with its log when it does not) to the destructor, which ends its guests too.
class PrivateServer {
 public:
  // `driver` as in vgpud --driver; `more` arguments of it.
  PrivateServer(const Places& places, const std::string& folder, const std::string& driver,
                const Supervisor& supervisor, const std::vector<std::string>& more = {});
  ~PrivateServer();
  PrivateServer(const PrivateServer&) = delete;
  PrivateServer& operator=(const PrivateServer&) = delete;

  const std::string& address() const { return address_; }
  std::string log() const { return child_->errors() + child_->output(); }
  pid_t pid() const { return child_->pid(); }

 private:
  void stop();

  const Supervisor& supervisor_;
  std::string address_;
  std::unique_ptr<Child> child_;
};

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_PRIVATE_SERVER_H_
