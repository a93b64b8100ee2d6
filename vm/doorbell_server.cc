// The few messages of QEMU's protocol, and eventfds.
// SPDX-License-Identifier: Apache-2.0
#include "vm/doorbell_server.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "protocol/limits.h"

namespace vgpu::vm {
namespace {

constexpr int64_t kVersion = 0;
constexpr int64_t kMachinePeer = 1;

// A number in the byte order of the machine that QEMU expects, little endian, with a descriptor.
Status tell(int socket, int64_t number, int descriptor = -1) {
  iovec data{&number, sizeof(number)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof(descriptor));
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t{sizeof(number)})
    return Status::from_errno(errno, "sendmsg to QEMU");
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<DoorbellServer>> DoorbellServer::listen(const std::string& path,
                                                               int region) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Status(StatusCode::kInvalidArgument, "path of QEMU's socket is too long: " + path);
  std::memcpy(address.sun_path, path.data(), path.size());
  std::unique_ptr<DoorbellServer> server(new DoorbellServer(path, region));
  server->listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  server->to_host_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  server->to_guest_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->listener_.valid() || !server->to_host_.valid() || !server->to_guest_.valid())
    return Status::from_errno(errno, "socket, eventfd");
  // A socket whose program has died is in the way; anything else is somebody's.
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  struct stat old {};
  if (::lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode) &&
      ::connect(probe.get(), name, sizeof(address)) != 0 && errno == ECONNREFUSED) {
    (void)::unlink(path.c_str());
  }
  server->bound_ = ::bind(server->listener_.get(), name, sizeof(address)) == 0;
  if (!server->bound_ || ::chmod(path.c_str(), 0600) != 0 ||
      ::listen(server->listener_.get(), 1) != 0) {
    return Status::from_errno(errno, ("listen at " + path).c_str());
  }
  return server;
}

DoorbellServer::~DoorbellServer() {
  if (bound_) (void)::unlink(path_.c_str());
}

Status DoorbellServer::introduce(int socket) const {
  VGPU_RETURN_IF_ERROR(tell(socket, kVersion));
  VGPU_RETURN_IF_ERROR(tell(socket, kMachinePeer));
  VGPU_RETURN_IF_ERROR(tell(socket, -1, region_));
  VGPU_RETURN_IF_ERROR(tell(socket, protocol::kHostPeer, to_host_.get()));
  return tell(socket, kMachinePeer, to_guest_.get());
}

void DoorbellServer::accept_machine() {
  UniqueFd machine(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!machine.valid() || qemu_.valid()) return;  // one machine at a time
  if (Status told = introduce(machine.get()); !told.ok()) {
    VGPU_LOG_WARN("QEMU: %s", told.to_string().c_str());
    return;
  }
  VGPU_LOG_INFO("a machine has connected");
  qemu_ = std::move(machine);
}

void DoorbellServer::add_to(std::vector<pollfd>* descriptors) const {
  descriptors->push_back({listener_.get(), POLLIN, 0});
  descriptors->push_back({to_host_.get(), POLLIN, 0});
  if (qemu_.valid()) descriptors->push_back({qemu_.get(), POLLIN, 0});
}

DoorbellServer::Seen DoorbellServer::look() {
  accept_machine();
  if (qemu_.valid()) {
    char byte = 0;
    const ssize_t got = ::recv(qemu_.get(), &byte, sizeof(byte), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      qemu_.reset();
      return Seen::kMachineGone;
    }
  }
  uint64_t count = 0;
  const bool rung = ::read(to_host_.get(), &count, sizeof(count)) == ssize_t{sizeof(count)};
  return rung ? Seen::kRing : Seen::kNothing;
}

}  // namespace vgpu::vm
