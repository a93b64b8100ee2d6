// Scrapes on threads of their own, and the loop that answers them, or does not.
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/unique_fd.h"

namespace vgpu::server {
namespace {

uint16_t free_port() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return ntohs(address.sin_port);
}

std::string scrape(uint16_t port) {
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return "no connection";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  (void)!::write(client.get(), request.data(), request.size());
  std::string answer;
  char bytes[4096];
  for (ssize_t got; (got = ::read(client.get(), bytes, sizeof(bytes))) > 0;)
    answer.append(bytes, static_cast<size_t>(got));
  return answer;
}

class Endpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    port_ = free_port();
    auto endpoint = MetricsEndpoint::start("127.0.0.1:" + std::to_string(port_));
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().to_string();
    endpoint_ = std::move(endpoint).value();
  }
  bool asked(int timeout_ms) {
    pollfd entry{endpoint_->wakeup_fd(), POLLIN, 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
  }
  uint16_t port_ = 0;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(Endpoint, ReadsOnlyWhenAsked) {
  EXPECT_FALSE(asked(50));
  std::string answer;
  std::thread scraper([&] { answer = scrape(port_); });
  ASSERT_TRUE(asked(10'000));
  Reading reading;
  reading.waiting_guests = 7;
  endpoint_->publish(std::move(reading));
  scraper.join();
  EXPECT_NE(answer.find("vgpu_server_waiting_guests 7"), std::string::npos) << answer;
  EXPECT_FALSE(asked(0));  // the bell is quiet again
}

TEST_F(Endpoint, ALoopThatDoesNotAnswerGivesNoOldFigures) {
  std::thread scraper([&] { (void)scrape(port_); });
  ASSERT_TRUE(asked(10'000));
  endpoint_->publish(Reading());
  scraper.join();
  (void)::poll(nullptr, 0, kReadingFreshNs / 1'000'000 + 20);
  const std::string answer = scrape(port_);
  EXPECT_NE(answer.find("200 OK"), std::string::npos);
  EXPECT_EQ(answer.find("vgpu_server"), std::string::npos);
}

TEST_F(Endpoint, ManyScrapesAtOnce) {
  std::atomic<int> good{0}, running{8};
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 8; ++i) {
    scrapers.emplace_back([&] {
      for (int round = 0; round < 5; ++round)
        good += scrape(port_).find("vgpu_server_info") != std::string::npos;
      --running;
    });
  }
  while (running.load() > 0) {
    if (asked(10)) endpoint_->publish(Reading());
  }
  for (std::thread& each : scrapers) each.join();
  EXPECT_EQ(good.load(), 40);
}

TEST_F(Endpoint, APortThatIsTakenIsSaid) {
  const auto second = MetricsEndpoint::start("127.0.0.1:" + std::to_string(port_));
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().text().find(std::to_string(port_)), std::string::npos);
}

}  // namespace
}  // namespace vgpu::server
