// vgpu-vm: lets the programs of one QEMU virtual machine use this host's vgpud.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "protocol/transport/connect.h"
#include "vm/host.h"
#include "vm/program.h"

namespace vgpu::vm {
namespace {

constexpr char kHelp[] =
    "vgpu-vm lets the programs of one QEMU virtual machine use this host's vgpud.\n"
    "\n"
    "  vgpu-vm --name vm1 --qemu /run/vgpu/vm1.sock       for a device ivshmem-doorbell\n"
    "  vgpu-vm --name vm1 --memory /run/vgpu/vm1.memory   for a device ivshmem-plain\n"
    "\n"
    "  --name NAME       of the machine: shown by vgpu info\n"
    "  --server ADDRESS  vgpud's, unix:/path; default as for guests (VGPU_SERVER)\n"
    "  --qemu PATH       socket for QEMU's -chardev of ivshmem-doorbell\n"
    "  --memory PATH     a link to the memory, for QEMU's mem-path; QEMU must be of the same user\n"
    "  --size SIZE       of the memory, a power of two: 256M\n"
    "  --programs N      that can use it at a time, each with its share of the memory: 8\n"
    "\n"
    "It runs as long as the machine; when it ends, the machine's guests end. See docs/vm.md.\n";

bool set_text(std::string* to, const std::string& value) {
  *to = value;
  return !value.empty();
}

// One that an earlier run has left: anything else there is somebody's.
bool is_dead_link(const std::string& path) {
  char target[64] = {};
  const ssize_t bytes = ::readlink(path.c_str(), target, sizeof(target) - 1);
  return bytes > 0 && std::string_view(target).starts_with("/proc/") &&
         ::access(path.c_str(), F_OK) != 0;
}

struct Link {
  std::string path;
  ~Link() {
    if (!path.empty()) (void)::unlink(path.c_str());
  }
  Status make(const std::string& where, int region) {
    const std::string target =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(region);
    if (is_dead_link(where)) (void)::unlink(where.c_str());
    if (::symlink(target.c_str(), where.c_str()) != 0)
      return Status::from_errno(errno, ("link " + where).c_str());
    path = where;
    return ok_status();
  }
};

int run(int argc, char** argv) {
  HostOptions options;
  options.name = "vm";
  std::string server, memory;
  const OptionTable table = {
      {"--name", [&](const std::string& text) { return set_text(&options.name, text); }},
      {"--server", [&](const std::string& text) { return set_text(&server, text); }},
      {"--qemu", [&](const std::string& text) { return set_text(&options.qemu, text); }},
      {"--memory", [&](const std::string& text) { return set_text(&memory, text); }},
      {"--size",
       [&](const std::string& text) {
         const auto bytes = parse_size(text);
         options.region_bytes = bytes.value_or(0);
         return bytes.has_value();
       }},
      {"--programs",
       [&](const std::string& text) {
         const auto count = parse_size(text);
         options.pieces = static_cast<uint32_t>(count.value_or(0));
         return count && *count <= protocol::kVmConnectionsMax;
       }},
  };
  if (const auto code = parse_options(argc, argv, kHelp, table)) return *code;
  start_program();
  const Result<protocol::Address> address =
      server.empty() ? protocol::default_address() : protocol::parse_address(server);
  if (!address.ok() || address->kind != protocol::Address::Kind::kUnix) {
    std::fprintf(stderr, "vgpu-vm: --server must be unix:/path\n");
    return 2;
  }
  if (options.qemu.empty() == memory.empty()) {
    std::fprintf(stderr, "vgpu-vm: either --qemu or --memory; see --help\n");
    return 2;
  }
  options.server = address->path;
  Result<std::unique_ptr<Host>> host = Host::create(options);
  Link link;
  Status status = host.ok() ? ok_status() : host.status();
  if (status.ok() && !memory.empty()) status = link.make(memory, (*host)->region());
  if (!status.ok()) {
    std::fprintf(stderr, "vgpu-vm: %s\n", status.to_string().c_str());
    return 1;
  }
  VGPU_LOG_INFO("%s: ready, for guests of unix:%s", options.name.c_str(), options.server.c_str());
  while (!stopping()) (*host)->run_once(-1);
  return 0;
}

}  // namespace
}  // namespace vgpu::vm

int main(int argc, char** argv) { return vgpu::vm::run(argc, argv); }
