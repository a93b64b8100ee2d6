// What strangers, and guests that break the rules, do to a gate: nothing.
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "net/control/zmq_socket.h"
#include "protocol/limits.h"
#include "tests/lifecycle/network_server.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

// A socket of libzmq's with an admitted key and no manners.
class RawGuest {
 public:
  RawGuest(const NetworkServer& server, const net::KeyPair& own)
      : socket_(std::move(*net::ZmqSocket::open(context_, ZMQ_DEALER))) {
    EXPECT_TRUE(socket_.set(ZMQ_CURVE_SERVERKEY, server.public_key()).ok());
    EXPECT_TRUE(socket_.set(ZMQ_CURVE_PUBLICKEY, own.public_key).ok());
    EXPECT_TRUE(socket_.set(ZMQ_CURVE_SECRETKEY, own.secret_key).ok());
    EXPECT_TRUE(socket_.set(ZMQ_RECONNECT_IVL, -1).ok());
    EXPECT_TRUE(socket_.connect(server.address().endpoint()).ok());
  }
  // Waits for room.
  bool send(std::span<const uint8_t> frame, bool more = false) {
    (void)socket_.set(ZMQ_SNDTIMEO, 10'000);
    return zmq_send(socket_.get(), frame.data(), frame.size(), more ? ZMQ_SNDMORE : 0) >= 0;
  }
  bool send(const protocol::Message& message) { return send(protocol::encode_message(message)); }
  // The next answer; nothing within the time.
  std::optional<protocol::Message> answer(int timeout_ms = 10'000) {
    zmq_pollitem_t item = {socket_.get(), 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, timeout_ms) <= 0) return std::nullopt;
    const auto received = socket_.receive(1);
    if (!received.ok() || received->frames.size() != 1) return std::nullopt;
    auto message = protocol::decode_message(received->frames[0]);
    if (!message.ok()) return std::nullopt;
    return std::move(*message);
  }
  bool refused(int timeout_ms = 10'000) {
    const auto message = answer(timeout_ms);
    return message && std::get_if<protocol::Refusal>(&*message) != nullptr;
  }

 private:
  net::ZmqContext context_;
  net::ZmqSocket socket_;
};

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.start();
    gate_ = server_.gates().at(0);
    own_ = server_.admit("team-a");
    quiet_ = server_.admit("quiet");
    bystander_ = net_attach(server_, quiet_);
    ASSERT_TRUE(bystander_.status.ok()) << bystander_.status.to_string();
  }
  void TearDown() override {
    // Nothing else was disturbed: the same gate, the same guest, room for the next.
    EXPECT_EQ(server_.gates().at(0), gate_) << "the gate has died";
    EXPECT_EQ(hangs_up_after(bystander_.lifeline.get(), 100), -1) << "a bystander was ended";
    EXPECT_TRUE(net_attach(server_, quiet_).status.ok());
  }
  uint64_t resident_kib() const {
    std::ifstream status("/proc/" + std::to_string(gate_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
    }
    return 0;
  }
  size_t threads() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each :
         std::filesystem::directory_iterator("/proc/" + std::to_string(gate_) + "/task")) {
      ++count;
    }
    return count;
  }
  protocol::NetAttach hello() const {
    protocol::NetAttach attach;
    attach.hello = test_hello(uint64_t{16} << 20);
    return attach;
  }

  NetworkServer server_;
  pid_t gate_ = 0;
  net::KeyPair own_, quiet_;
  net::ControlAnswer bystander_;
};

TEST_F(Hostile, MessagesThatAreNoneAreRefused) {
  RawGuest guest(server_, own_);
  const std::vector<uint8_t> good = protocol::encode_message(hello());
  ASSERT_TRUE(guest.send(std::vector<uint8_t>{}));
  EXPECT_TRUE(guest.refused());
  ASSERT_TRUE(guest.send(std::vector<uint8_t>(1000, 0xff)));
  EXPECT_TRUE(guest.refused());
  ASSERT_TRUE(guest.send(std::span(good).first(good.size() / 2)));
  EXPECT_TRUE(guest.refused());
  // Two frames, and more than a gate counts.
  for (const int frames : {2, 50}) {
    for (int i = 0; i < frames; ++i) ASSERT_TRUE(guest.send(good, i + 1 < frames));
    EXPECT_TRUE(guest.refused());
  }
  EXPECT_EQ(server_.guests().size(), 1u);
  EXPECT_TRUE(eventually([this] { return server_.use()->malformed >= 5; }));
}

TEST_F(Hostile, WhatIsNotForTheNetworkIsRefused) {
  RawGuest guest(server_, own_);
  for (const protocol::Message& message :
       {protocol::Message(protocol::StopRequest{true}), protocol::Message(test_hello()),
        protocol::Message(protocol::InfoReply{}),
        protocol::Message(protocol::NetEnded{bystander_.message.index(), "x"})}) {
    ASSERT_TRUE(guest.send(message));
    EXPECT_TRUE(guest.refused()) << protocol::message_name(message);
  }
}

TEST_F(Hostile, AMessageThatIsTooLongEndsItsConnection) {
  RawGuest guest(server_, own_);
  ASSERT_TRUE(guest.send(protocol::InfoRequest{}));
  ASSERT_TRUE(guest.answer().has_value());
  ASSERT_TRUE(guest.send(std::vector<uint8_t>(protocol::kControlMessageBytesMax + 1, 1)));
  EXPECT_FALSE(guest.answer(1000).has_value());
}

TEST_F(Hostile, AHelloThatIsRepeatedIsRefused) {
  RawGuest guest(server_, own_);
  ASSERT_TRUE(guest.send(hello()));
  const auto first = guest.answer();
  ASSERT_TRUE(first && std::get_if<protocol::NetAttached>(&*first) != nullptr);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(guest.send(hello()));
    EXPECT_TRUE(guest.refused());
  }
  EXPECT_EQ(server_.guests().size(), 2u);
}

TEST_F(Hostile, OneCannotSpeakForAnothersSession) {
  RawGuest guest(server_, own_);
  const uint64_t session = std::get<protocol::NetAttached>(bystander_.message).reply.session;
  ASSERT_TRUE(guest.send(protocol::NetDetach{session}));
  ASSERT_TRUE(guest.send(protocol::NetBeat{session, 1}));
  const auto answer = guest.answer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_NE(std::get_if<protocol::NetEnded>(&*answer), nullptr) << "it is told nothing of it";
  EXPECT_EQ(server_.guests().size(), 1u);
}

TEST_F(Hostile, TheTenantThatAGuestClaimsIsNotBelieved) {
  RawGuest guest(server_, own_);
  protocol::NetAttach attach = hello();
  attach.hello.tenant = "quiet";
  attach.hello.remote = "elsewhere";
  ASSERT_TRUE(guest.send(attach));
  ASSERT_TRUE(guest.answer().has_value());
  size_t quiet = 0;
  for (const auto& each : server_.guests()) quiet += each.tenant == "quiet";
  EXPECT_EQ(quiet, 1u);
  // Nor on the socket of this host.
  const protocol::Attachment local =
      protocol::attach(server_.vgpud().address(), attach.hello, 20'000);
  ASSERT_TRUE(local.status.ok());
  for (const auto& each : server_.guests()) EXPECT_NE(each.remote, "elsewhere");
}

TEST_F(Hostile, AFloodOfAttachesIsHeldBack) {
  int attached = 0, held_back = 0;
  std::vector<std::unique_ptr<RawGuest>> guests;
  for (int i = 0; i < 60; ++i) {
    guests.push_back(std::make_unique<RawGuest>(server_, own_));
    ASSERT_TRUE(guests.back()->send(hello()));
  }
  for (auto& guest : guests) {
    const auto answer = guest->answer(30'000);
    if (!answer) continue;
    attached += std::get_if<protocol::NetAttached>(&*answer) != nullptr;
    const auto* refusal = std::get_if<protocol::Refusal>(&*answer);
    held_back += refusal != nullptr && refusal->text.find("too many") != std::string::npos;
  }
  EXPECT_GT(attached, 0);
  EXPECT_GT(held_back, 10);
  guests.clear();
  EXPECT_TRUE(eventually([this] { return server_.guests().size() == 1; }));
  EXPECT_TRUE(eventually([this] { return server_.gates().size() == 2; })) << "sessions stay behind";
}

TEST_F(Hostile, StrangersCostNothing) {
  const uint64_t before_kib = resident_kib();
  const size_t threads_before = threads();
  for (int i = 0; i < 40; ++i) (void)net_attach(server_, fresh_keys());
  // Connections that say nothing, or nonsense.
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_.address().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        ::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (i % 2 == 0) {
      const std::string text = "GET / HTTP/1.1\r\n\r\n" + std::string(200, 'x');
      (void)::send(silent.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
  }
  EXPECT_TRUE(eventually([this] { return server_.use()->strangers >= 40; }));
  EXPECT_LT(resident_kib(), before_kib + 16 * 1024);
  EXPECT_EQ(threads(), threads_before);
  EXPECT_TRUE(eventually([this] { return server_.use()->connections <= 2; }))
      << "connections without a key stay";
}

// libzmq bounds messages, not the frames of one that never ends.
TEST_F(Hostile, AMessageWithoutAnEndIsCutOff) {
  const uint64_t before_kib = resident_kib();
  RawGuest guest(server_, own_);
  const std::vector<uint8_t> frame(protocol::kControlMessageBytesMax / 2, 7);
  uint64_t sent_kib = 0;
  while (sent_kib < 512 * 1024 && guest.send(frame, true)) sent_kib += frame.size() / 1024;
  EXPECT_TRUE(eventually([&] { return resident_kib() < before_kib + 192 * 1024; }));
}

}  // namespace
}  // namespace vgpu::testing
