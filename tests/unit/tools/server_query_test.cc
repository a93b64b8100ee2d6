// Every way in which no server answers, made for real.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/server_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "protocol/session/handshake.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"
#include "tools/vgpu/info.h"

namespace vgpu::tools {
namespace {

using testing::HasSubstr;

class QueryTest : public testing::Test {
 protected:
  QueryTest() {
    std::string pattern = testing::TempDir() + "/vgpu-query-abc" + std::string(6, 'X');
    root_ = ::mkdtemp(pattern.data());
    path_ = root_ + "/s.sock";
  }
  ~QueryTest() override { std::filesystem::remove_all(root_); }

  // Answers one connection with `reply` (nothing: closes it) and returns what the client made of
  // it.
  ServerAnswer answered_with(const std::optional<protocol::Message>& reply) {
    auto listener = protocol::listen_unix(path_, 0600);
    EXPECT_TRUE(listener.ok());
    std::thread server([&] {
      Result<UniqueFd> guest = Status(StatusCode::kTimedOut, "");
      while (!guest.ok()) guest = protocol::accept_unix(listener->get());
      (void)protocol::receive_message(guest->get(), 5000);
      if (reply) (void)protocol::send_message(guest->get(), *reply);
    });
    ServerAnswer answer = query_server("unix:" + path_, 5000);
    server.join();
    return answer;
  }
  std::string root_, path_;
};

TEST_F(QueryTest, NoSocketFile) {
  const ServerAnswer answer = query_server("unix:" + path_);
  EXPECT_EQ(answer.state, ServerState::kNoSocket);
  EXPECT_THAT(problem_text(answer), HasSubstr(path_));
  EXPECT_THAT(advice_text(answer), HasSubstr("vgpud --listen unix:" + path_));
}

TEST_F(QueryTest, SocketWithoutAListener) {
  { auto listener = protocol::listen_unix(path_, 0600); }
  EXPECT_EQ(query_server("unix:" + path_).state, ServerState::kNobodyListens);
}

TEST_F(QueryTest, SocketOfAnotherKind) {
  const int other = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(other, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(other, 1), 0);
  EXPECT_EQ(query_server("unix:" + path_).state, ServerState::kNotAServer);
  ::close(other);
}

TEST_F(QueryTest, AddressesThatMakeNoSense) {
  for (const char* address : {"nonsense", "tcp:host:1", "unix:relative", "loop:"}) {
    EXPECT_EQ(query_server(address).state, ServerState::kBadAddress) << address;
  }
}

TEST_F(QueryTest, RefusedAndWrongVersionAreToldApart) {
  const ServerAnswer refused =
      answered_with(protocol::Refusal{protocol::kCudaNotPermitted, "uid 5 is not welcome"});
  EXPECT_EQ(refused.state, ServerState::kRefused);
  EXPECT_THAT(problem_text(refused), HasSubstr("uid 5 is not welcome"));
  const ServerAnswer other =
      answered_with(protocol::Refusal{protocol::kCudaSystemDriverMismatch, "2 against 1"});
  EXPECT_EQ(other.state, ServerState::kWrongVersion);
  EXPECT_EQ(answered_with(protocol::StopReply{}).state, ServerState::kWrongVersion);
  EXPECT_EQ(answered_with(std::nullopt).state, ServerState::kRefused);
}

TEST_F(QueryTest, NoAnswerInTime) {
  auto listener = protocol::listen_unix(path_, 0600);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(query_server("unix:" + path_, 20).state, ServerState::kSilent);
}

// As many wait as there is room for: one cannot even connect.
TEST_F(QueryTest, NobodyTakesConnections) {
  auto listener = protocol::listen_unix(path_, 0600);
  ASSERT_TRUE(listener.ok());
  std::vector<UniqueFd> waiting;
  for (auto next = protocol::connect_unix(path_, 0); next.ok();
       next = protocol::connect_unix(path_, 0)) {
    waiting.push_back(std::move(next).value());
    ASSERT_LT(waiting.size(), 10'000U);
  }
  EXPECT_EQ(query_server("unix:" + path_, 20).state, ServerState::kSilent);
}

TEST_F(QueryTest, AnswerIsShownAsTextAndJson) {
  protocol::InfoReply info;
  info.server_version = "1.2";
  info.driver = "soft";
  info.driver_path = "/l/libcuda.so.1";
  info.driver_reason = "there is no GPU";
  info.driver_version = 13000;
  info.devices.push_back({"Software GPU", uint64_t{8} << 30, uint64_t{2} << 30, "GPU-1",
                          "0000:01:00.0", uint64_t{7} << 30});
  info.devices.push_back(
      {"Another GPU", uint64_t{4} << 30, 0, "GPU-2", "0000:02:00.0", uint64_t{4} << 30});
  info.guests.push_back({7, 4711, "vecadd", "alice", uint64_t{2} << 30, 1 << 20, 65'000, {1, 0}});
  const ServerAnswer answer = answered_with(info);
  ASSERT_EQ(answer.state, ServerState::kAnswers);
  const std::string text = info_text(answer);
  for (const char* part : {"1.2", "soft", "/l/libcuda.so.1", "because: there is no GPU",
                           "CUDA 13.0", "Software GPU", "5 GiB", "4711", "vecadd", "alice", "1 MiB",
                           "65 s", "Another GPU", "0000:02:00.0", "1,0"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(info_json(answer), HasSubstr("\"free_bytes\": 5368709120"));
  EXPECT_THAT(info_json(answer), HasSubstr("\"uuid\": \"GPU-2\""));
}

}  // namespace
}  // namespace vgpu::tools
