// Attaching: good, refused, mismatched, hostile.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "protocol/transport/control_socket.h"
#include "protocol/wire/encoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

constexpr uint64_t kWire = 0xabcdef0123456789;
constexpr AddressRange kRange{uint64_t{1} << 45, uint64_t{1} << 43};

Hello hello_with(uint64_t wire) {
  Hello hello;
  hello.wire_hash = wire;
  hello.executable = "app";
  hello.shim_version = "1.2";
  hello.device_ranges = {kRange};
  return hello;
}

HelloReply good_reply() {
  HelloReply reply;
  reply.wire_hash = kWire;
  reply.server_version = "3.4";
  reply.memory_bytes = 1 << 30;
  reply.device_range = kRange;
  reply.devices.resize(1);
  reply.sizes = small_sizes();
  return reply;
}

// Runs `server` with the other end of the guest's connection.
template <typename Server>
Attachment attach_to(const Hello& hello, Server server) {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) std::abort();
  std::thread thread([&server, fd = both[1]] { server(UniqueFd(fd)); });
  Attachment attachment = attach_over(UniqueFd(both[0]), hello, 10'000);
  thread.join();
  return attachment;
}

void expect_hello(int socket, const Message& answer) {
  ASSERT_TRUE(receive_message(socket, 10'000).ok());
  ASSERT_TRUE(send_message(socket, answer).ok());
}

TEST(Handshake, AttachesAndCarriesARecord) {
  std::unique_ptr<WorkerChannel> worker;
  Attachment attachment = attach_to(hello_with(kWire), [&](UniqueFd socket) {
    Result<ReceivedMessage> received = receive_message(socket.get(), 10'000);
    ASSERT_TRUE(received.ok());
    const Hello* hello = std::get_if<Hello>(&received->message);
    ASSERT_NE(hello, nullptr);
    ASSERT_TRUE(check_hello(*hello, kWire, "3.4").ok());
    Result<std::unique_ptr<WorkerChannel>> channel = answer_hello(std::move(socket), good_reply());
    ASSERT_TRUE(channel.ok()) << channel.status().text();
    worker = std::move(channel).value();
  });
  ASSERT_TRUE(attachment.status.ok()) << attachment.status.text();
  EXPECT_EQ(attachment.cuda_error, 0);
  EXPECT_FALSE(attachment.channel->transport().same_address_space());
  EXPECT_NE(attachment.channel->transport().memory().data(), worker->transport().memory().data());
  ASSERT_EQ(write_record(&attachment.channel->producer(), 3, uint64_t{99}), 1u);
  Record record;
  ASSERT_EQ(worker->consumer().peek(&record), PeekResult::kRecord);
  EXPECT_EQ(record.header.op, 3);
  worker->semaphores().raise(Semaphore::kExecuted, 1);
  EXPECT_EQ(attachment.channel->semaphores().wait(Semaphore::kExecuted, 1), WaitResult::kReady);
}

TEST(Handshake, ServerNamesBothSidesOfAMismatch) {
  const Status status = check_hello(hello_with(0x11), kWire, "3.4");
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  const std::string protocol = "has protocol " + std::to_string(kProtocolVersion) + ", wire ";
  EXPECT_NE(status.text().find("guest 1.2 " + protocol + "0000000000000011"), std::string::npos);
  EXPECT_NE(status.text().find("server 3.4 " + protocol + "abcdef0123456789"), std::string::npos);
  EXPECT_EQ(refusal_for(status).code, kCudaSystemDriverMismatch);
  Hello other = hello_with(kWire);
  other.protocol_version = kProtocolVersion + 1;
  EXPECT_EQ(check_hello(other, kWire, "3.4").code(), StatusCode::kMismatch);

  const Attachment attachment = attach_to(
      hello_with(0x11), [&](UniqueFd socket) { expect_hello(socket.get(), refusal_for(status)); });
  EXPECT_EQ(attachment.cuda_error, kCudaSystemDriverMismatch);
  EXPECT_NE(attachment.status.text().find("wire abcdef0123456789"), std::string::npos);
}

TEST(Handshake, GuestChecksTheServerToo) {
  const Attachment attachment = attach_to(
      hello_with(0x11), [](UniqueFd socket) { expect_hello(socket.get(), good_reply()); });
  EXPECT_EQ(attachment.cuda_error, kCudaSystemDriverMismatch);
  HelloReply newer = good_reply();
  newer.protocol_version = 9;
  const Attachment second =
      attach_to(hello_with(kWire), [&](UniqueFd socket) { expect_hello(socket.get(), newer); });
  EXPECT_EQ(second.cuda_error, kCudaSystemDriverMismatch);
  EXPECT_NE(second.status.text().find("server 3.4 has protocol 9"), std::string::npos);
}

TEST(Handshake, HostileAnswersAreNoDevice) {
  HelloReply elsewhere = good_reply();
  elsewhere.device_range.base += 1 << 21;
  HelloReply foreign = good_reply();
  foreign.host_range = {uint64_t{1} << 30, kHostRangeBytes};
  const std::pair<Message, const char*> answers[] = {{good_reply(), "no memory"},
                                                     {InfoRequest{}, "InfoRequest"},
                                                     {elsewhere, "address range"},
                                                     {foreign, "host memory"}};
  for (const auto& [answer, reason] : answers) {
    const Attachment attachment = attach_to(hello_with(kWire), [&answer = answer](UniqueFd socket) {
      expect_hello(socket.get(), answer);
    });
    EXPECT_NE(attachment.status.text().find(reason), std::string::npos) << attachment.status.text();
    EXPECT_FALSE(attachment.status.ok());
    EXPECT_NE(attachment.cuda_error, 0);
    EXPECT_EQ(attachment.channel, nullptr);
  }
}

TEST(Handshake, MemoryThatIsNotSealedIsRefused) {
  const Attachment attachment = attach_to(hello_with(kWire), [](UniqueFd socket) {
    ASSERT_TRUE(receive_message(socket.get(), 10'000).ok());
    const int descriptor = socket.get();
    ASSERT_TRUE(
        send_message(socket.get(), good_reply(), std::span<const int>(&descriptor, 1)).ok());
  });
  EXPECT_EQ(attachment.status.code(), StatusCode::kMalformed);
}

TEST(Handshake, ServerThatClosesOrStaysSilent) {
  Attachment attachment = attach_to(hello_with(kWire), [](UniqueFd) {});
  EXPECT_EQ(attachment.cuda_error, kCudaNoDevice);
  int both[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
  UniqueFd silent(both[1]);
  attachment = attach_over(UniqueFd(both[0]), hello_with(kWire), 20);
  EXPECT_EQ(attachment.status.code(), StatusCode::kTimedOut);
  EXPECT_EQ(attachment.cuda_error, kCudaNoDevice);
}

TEST(Handshake, NoServerIsNoDevice) {
  const Attachment attachment =
      attach(Address{Address::Kind::kUnix, "/nonexistent/s.sock"}, hello_with(kWire), 100);
  EXPECT_EQ(attachment.cuda_error, kCudaNoDevice);
  EXPECT_NE(attachment.status.text().find("/nonexistent/s.sock"), std::string::npos);
  EXPECT_EQ(attach(Address{Address::Kind::kLoop, ""}, hello_with(kWire), 100).cuda_error,
            kCudaNoDevice);
}

}  // namespace
}  // namespace vgpu::protocol
