// sendmsg and recvmsg with SCM_RIGHTS.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/control_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "protocol/limits.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::protocol {
namespace {

// Waits for an event on a socket; EINTR only shortens the time that is left.
Status wait_event(int socket, short event, int timeout_ms) {  // NOLINT(google-runtime-int)
  const int64_t deadline = now_ns() + int64_t{timeout_ms} * 1'000'000;
  for (;;) {
    int left_ms = -1;
    if (timeout_ms >= 0) {
      const int64_t left_ns = deadline - now_ns();
      left_ms = left_ns <= 0 ? 0 : static_cast<int>((left_ns + 999'999) / 1'000'000);
    }
    pollfd entry{socket, event, 0};
    const int count = ::poll(&entry, 1, left_ms);
    if (count > 0)
      return ok_status();  // also for an error or a hang-up: the call itself then says which
    if (count == 0) return Status(StatusCode::kTimedOut, "no answer in time");
    if (errno != EINTR) return Status::from_errno(errno, "poll");
  }
}

Status peer_gone(int error, const char* what) {
  if (error == EPIPE || error == ECONNRESET || error == ENOTCONN) {
    return Status(StatusCode::kUnavailable, "the peer closed the connection", error);
  }
  return Status::from_errno(error, what);
}

void take_descriptors(msghdr* message, std::vector<UniqueFd>* out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      out->emplace_back(fd);
    }
  }
}

}  // namespace

Status send_frame(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors,
                  int timeout_ms) {
  if (bytes.empty() || bytes.size() > kControlMessageBytesMax ||
      descriptors.size() > kControlDescriptorsMax) {
    return Status(StatusCode::kInvalidArgument, "control message beyond the limits");
  }
  iovec data{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kControlDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return ok_status();  // a sequenced packet goes whole or not at all
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return peer_gone(errno, "sendmsg");
    VGPU_RETURN_IF_ERROR(wait_event(socket, POLLOUT, timeout_ms));
  }
}

Result<ControlFrame> receive_frame(int socket, int timeout_ms) {
  ControlFrame frame;
  frame.bytes.resize(kControlMessageBytesMax);
  // Room for more descriptors than allowed, so that a flood is seen and closed rather than cut off
  // by the kernel unseen.
  alignas(cmsghdr) char control[CMSG_SPACE((kControlDescriptorsMax + 1) * sizeof(int))];
  for (;;) {
    iovec data{frame.bytes.data(), frame.bytes.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return peer_gone(errno, "recvmsg");
      VGPU_RETURN_IF_ERROR(wait_event(socket, POLLIN, timeout_ms));
      continue;
    }
    take_descriptors(&message, &frame.descriptors);
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        frame.descriptors.size() > kControlDescriptorsMax) {
      return Status(StatusCode::kMalformed, "control message beyond the limits");
    }
    if (got == 0) {
      return Status(StatusCode::kUnavailable, "the peer closed the connection");
    }
    frame.bytes.resize(static_cast<size_t>(got));
    return frame;
  }
}

Result<PeerCredentials> peer_credentials(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return Status::from_errno(errno, "SO_PEERCRED");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

std::vector<gid_t> peer_groups(int socket, const PeerCredentials& peer) {
  std::vector<gid_t> groups(64);
  int failed = 0;
  do {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    failed = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
    if (failed != 0 && errno != ERANGE) bytes = 0;
    groups.resize(bytes / sizeof(gid_t));  // too short: as many as there are
  } while (failed != 0 && !groups.empty());
  groups.push_back(peer.gid);
  return groups;
}

Result<UniqueFd> open_pidfd(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);  // NOLINT(google-runtime-int)
  if (fd < 0) return Status::from_errno(errno, "pidfd_open");
  return UniqueFd(static_cast<int>(fd));  // the kernel makes it CLOEXEC
}

}  // namespace vgpu::protocol
