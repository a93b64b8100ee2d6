// vgpu-agent: in a virtual machine, the socket at which its programs find the host's vGPUs.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "protocol/transport/connect.h"
#include "vm/agent.h"
#include "vm/program.h"

namespace vgpu::vm {
namespace {

constexpr char kHelp[] =
    "vgpu-agent gives the programs of a virtual machine the host's vGPUs. It runs as root.\n"
    "\n"
    "  --listen ADDRESS   unix:/path; default: where programs look, /run/vgpu/vgpud.sock for root\n"
    "  --region ADDRESS   ivshmem: (the first such device), ivshmem:0000:00:04.0; default "
    "ivshmem:\n"
    "  --mode MODE        permissions of the socket, octal: 666\n"
    "  --interrupts WORD  yes: take the device's interrupt through VFIO, so that waiting programs\n"
    "                     sleep; no: they look again after short naps; default no\n"
    "\n"
    "Whoever may open the socket can read and write the memory of all of this machine's programs\n"
    "on its way to the host. See docs/vm.md.\n";

int run(int argc, char** argv) {
  AgentOptions options;
  std::string listen;
  const OptionTable table = {
      {"--listen",
       [&](const std::string& text) {
         listen = text;
         return true;
       }},
      {"--region",
       [&](const std::string& text) {
         options.region = text;
         return true;
       }},
      {"--mode",
       [&](const std::string& text) {
         char* end = nullptr;
         options.socket_mode = static_cast<unsigned>(std::strtoul(text.c_str(), &end, 8));
         return !text.empty() && *end == '\0' && options.socket_mode <= 0777;
       }},
      {"--interrupts",
       [&](const std::string& text) {
         options.interrupts = text == "yes";
         return text == "yes" || text == "no";
       }},
  };
  if (const auto code = parse_options(argc, argv, kHelp, table)) return *code;
  start_program();
  const Result<protocol::Address> address =
      listen.empty() ? Result<protocol::Address>(protocol::default_listen_address())
                     : protocol::parse_address(listen);
  if (!address.ok() || address->kind != protocol::Address::Kind::kUnix) {
    std::fprintf(stderr, "vgpu-agent: --listen must be unix:/path\n");
    return 2;
  }
  options.listen = address->path;
  Result<std::unique_ptr<Agent>> agent = Agent::create(options);
  if (!agent.ok()) {
    std::fprintf(stderr, "vgpu-agent: %s\n", agent.status().to_string().c_str());
    return 1;
  }
  VGPU_LOG_INFO("listening on unix:%s", options.listen.c_str());
  while (!stopping()) (*agent)->run_once(-1);
  (void)::unlink(options.listen.c_str());
  return 0;
}

}  // namespace
}  // namespace vgpu::vm

int main(int argc, char** argv) { return vgpu::vm::run(argc, argv); }
