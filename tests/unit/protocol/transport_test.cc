// Frames, descriptors, sealed memory.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/transport/control_socket.h"
#include "protocol/transport/descriptor.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

struct Sockets {
  Sockets() {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) std::abort();
    a.reset(both[0]);
    b.reset(both[1]);
  }
  UniqueFd a, b;
};

TEST(Frames, KeepBoundariesAndDescriptors) {
  Sockets sockets;
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  UniqueFd reader(pipes[0]), writer(pipes[1]);
  const uint8_t one[] = {1, 2, 3};
  const uint8_t two[] = {4};
  const int fds[] = {writer.get()};
  ASSERT_TRUE(send_frame(sockets.a.get(), one, fds).ok());
  ASSERT_TRUE(send_frame(sockets.a.get(), two).ok());
  Result<ControlFrame> first = receive_frame(sockets.b.get(), 1000);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->bytes, (std::vector<uint8_t>{1, 2, 3}));
  ASSERT_EQ(first->descriptors.size(), 1u);
  EXPECT_NE(::fcntl(first->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(first->descriptors[0].get(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(reader.get(), &c, 1), 1);
  EXPECT_EQ(receive_frame(sockets.b.get(), 1000)->bytes, (std::vector<uint8_t>{4}));
}

TEST(Frames, NothingThereTimesOutAndGoneIsUnavailable) {
  Sockets sockets;
  EXPECT_EQ(receive_frame(sockets.b.get(), 0).status().code(), StatusCode::kTimedOut);
  EXPECT_EQ(receive_frame(sockets.b.get(), 5).status().code(), StatusCode::kTimedOut);
  sockets.a.reset();
  EXPECT_EQ(receive_frame(sockets.b.get(), -1).status().code(), StatusCode::kUnavailable);
  const uint8_t one[] = {1};
  EXPECT_EQ(send_frame(sockets.b.get(), one).code(), StatusCode::kUnavailable);  // and no SIGPIPE
}

TEST(Frames, BeyondTheLimitsIsMalformed) {
  Sockets sockets;
  const std::vector<uint8_t> large(kControlMessageBytesMax + 1);
  EXPECT_EQ(send_frame(sockets.a.get(), large).code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(::send(sockets.a.get(), large.data(), large.size(), 0), ssize_t(large.size()));
  EXPECT_EQ(receive_frame(sockets.b.get(), 1000).status().code(), StatusCode::kMalformed);
}

TEST(Frames, FloodOfDescriptorsIsClosed) {
  Sockets sockets;
  constexpr int kMany = 64;
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  UniqueFd reader(pipes[0]), writer(pipes[1]);
  std::vector<int> fds(kMany, writer.get());
  alignas(cmsghdr) char control[CMSG_SPACE(kMany * sizeof(int))] = {};
  uint8_t byte = 1;
  iovec data{&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(kMany * sizeof(int));
  std::copy(fds.begin(), fds.end(), reinterpret_cast<int*>(CMSG_DATA(part)));
  ASSERT_EQ(::sendmsg(sockets.a.get(), &message, 0), 1);
  EXPECT_EQ(receive_frame(sockets.b.get(), 1000).status().code(), StatusCode::kMalformed);
  // Only our own writer is left: when it closes, the reader sees the end.
  writer.reset();
  char c = 0;
  EXPECT_EQ(::read(reader.get(), &c, 1), 0);
}

TEST(Credentials, AreTheKernels) {
  Sockets sockets;
  const Result<PeerCredentials> peer = peer_credentials(sockets.a.get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::getuid());
  EXPECT_TRUE(open_pidfd(peer->pid).ok());
}

TEST(SealedMemory, NobodyCanResizeIt) {
  Result<UniqueFd> fd = make_sealed_memory(64 * 1024, "test");
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(::ftruncate(fd->get(), 0), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(fd->get(), 128 * 1024), 0);
  EXPECT_NE(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_TRUE(check_sealed_memory(fd->get(), 64 * 1024).ok());
  EXPECT_EQ(check_sealed_memory(fd->get(), 64 * 1024 + 1).code(), StatusCode::kMalformed);
}

TEST(SealedMemory, UnsealedOrForeignIsRefused) {
  UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 1 << 24), 0);
  EXPECT_EQ(check_sealed_memory(loose.get(), 4096).code(), StatusCode::kMalformed);
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(check_sealed_memory(null.get(), 4096).code(), StatusCode::kMalformed);
  EXPECT_FALSE(make_shm(Role::kGuest, UniqueFd(), loose.get(), small_sizes()).ok());
}

TEST(Loop, CarriesTaggedDescriptorsAndDeath) {
  Result<LoopPair> pair = make_loop(small_sizes());
  ASSERT_TRUE(pair.ok());
  EXPECT_TRUE(pair->guest->same_address_space());
  EXPECT_EQ(pair->guest->memory().data(), pair->worker->memory().data());
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(pair->guest->send_descriptor(null.get(), 0x1234).ok());
  auto received = pair->worker->receive_descriptor(1000);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->second, 0x1234u);
  EXPECT_TRUE(received->first.valid());
  const uint8_t junk[] = {1, 2};
  ASSERT_TRUE(send_frame(pair->guest->liveness_fd(), junk).ok());
  EXPECT_EQ(pair->worker->receive_descriptor(1000).status().code(), StatusCode::kMalformed);
  pair->guest.reset();
  EXPECT_EQ(pair->worker->receive_descriptor(1000).status().code(), StatusCode::kUnavailable);
}

TEST(Sizes, AreChecked) {
  EXPECT_TRUE(ChannelSizes{}.check().ok());
  EXPECT_FALSE((ChannelSizes{kRingBytesMin / 2, 1 << 20, 1 << 20}.check().ok()));
  EXPECT_FALSE((ChannelSizes{kRingBytesMin + 4096, 1 << 20, 1 << 20}.check().ok()));
  EXPECT_FALSE((ChannelSizes{uint64_t{kRingBytesMax} * 2, 1 << 20, 1 << 20}.check().ok()));
  EXPECT_FALSE((ChannelSizes{kRingBytesMin, (1 << 20) + 1, 1 << 20}.check().ok()));
  EXPECT_FALSE((ChannelSizes{kRingBytesMin, 1 << 20, UINT64_MAX}.check().ok()));
}

}  // namespace
}  // namespace vgpu::protocol
