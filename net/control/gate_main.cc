// vgpu-gate: a server's door to the network. Started by vgpud; its sessions are started by itself.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "net/control/gate.h"
#include "net/control/session_process.h"
#include "net/control/small_file.h"
#include "protocol/transport/connect.h"

namespace vgpu::net {
namespace {

constexpr int kWorkerDescriptor = 4;  // of a session

enum Exit : int { kExitUsage = 2, kExitKeys = 4 };

struct Arguments {
  bool session = false;
  uid_t user = 0;  // of a session
  std::string listen;
  GateOptions gate;
};

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : "";
}

bool parse(int argc, char** argv, Arguments* arguments) {
  GateOptions& gate = arguments->gate;
  const std::pair<const char*, std::string*> texts[] = {
      {"--listen", &arguments->listen}, {"--vgpud", &gate.vgpud_path},
      {"--key", &gate.key_path},        {"--authorized", &gate.authorized_path},
      {"--data-host", &gate.data_host}, {"--log-level", &gate.log_level}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--session") {
      arguments->session = true;
    } else if (name == "--require-encryption") {
      gate.require_encryption = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (name == "--control") {
      gate.control = std::atoi(argv[++i]);
    } else if (name == "--user") {
      arguments->user = static_cast<uid_t>(std::strtoul(argv[++i], nullptr, 10));
    } else if (name == "--session-users") {
      Result<UserRange> users = UserRange::parse(argv[++i]);
      if (!users.ok()) return false;
      gate.session_users = *users;
    } else if (name == "--grace") {
      gate.grace_ms = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else {
      bool known = false;
      for (const auto& [option, field] : texts) {
        if (name != option) continue;
        *field = argv[++i];
        known = true;
        break;
      }
      if (!known) return false;
    }
  }
  if (gate.grace_ms < protocol::kGraceMsMin || gate.grace_ms > protocol::kGraceMsMax) return false;
  return gate.control > 2 &&
         (arguments->session || (!arguments->listen.empty() && !gate.vgpud_path.empty()));
}

// As libfabric wants it.
std::string data_host(const std::string& host) {
  if (host == "*") return "0.0.0.0";
  return host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

int serve(Arguments arguments) {
  const Result<protocol::Address> address = protocol::parse_address(arguments.listen);
  if (!address.ok() || address->kind != protocol::Address::Kind::kTcp) {
    VGPU_LOG_ERROR("%s is no address to listen at", arguments.listen.c_str());
    return kExitUsage;
  }
  GateOptions& options = arguments.gate;
  options.address = *address;
  options.data_host = data_host(address->host);
  options.program = own_program();
  const bool root = geteuid() == 0;
  if (options.key_path.empty()) options.key_path = find_config(kServerKeyFile, root);
  if (options.authorized_path.empty())
    options.authorized_path = find_config(kAuthorizedKeysFile, root);
  Gate gate(std::move(options));
  if (const Status opened = gate.open(); !opened.ok()) {
    VGPU_LOG_ERROR("cannot listen at %s: %s", address->to_string().c_str(), opened.text().c_str());
    return kExitKeys;
  }
  // Without libzmq's own end: it would close what is not its any more.
  _exit(gate.run());
}

int run(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, &arguments)) {
    std::fprintf(stderr,
                 "vgpu-gate takes remote guests for vgpud, which starts it for --listen tcp://…; "
                 "there is nothing to run by hand.\n"
                 "usage: vgpu-gate --control FD --vgpud PATH --listen tcp://ADDRESS:PORT [--key "
                 "FILE] [--authorized FILE] [--session-users FIRST-LAST] [--require-encryption] "
                 "[--grace MS] [--log-level LEVEL]\n"
                 "       vgpu-gate --control FD --session [--user UID] [--data-host HOST]\n");
    return kExitUsage;
  }
  signal(SIGPIPE, SIG_IGN);
  set_log_level(parse_log_level(arguments.gate.log_level));
  (void)fcntl(arguments.gate.control, F_SETFD, FD_CLOEXEC);
  const rlimit no_core{0, 0};  // with the server's key in it
  (void)setrlimit(RLIMIT_CORE, &no_core);
  if (arguments.session) {
    (void)fcntl(kWorkerDescriptor, F_SETFD, FD_CLOEXEC);
    // Without exit handlers of libraries that have threads.
    _exit(run_session(
        {arguments.gate.control, kWorkerDescriptor, arguments.gate.data_host, arguments.user}));
  }
  raise_descriptor_limit();  // each connection and each session takes some
  return serve(std::move(arguments));
}

}  // namespace
}  // namespace vgpu::net

int main(int argc, char** argv) {
  // No device memory is registered here; libfabric would look for that in all of the kernel's
  // symbols.
  (void)::setenv("FI_HMEM", "system", 0);
  return vgpu::net::run(argc, argv);
}
