// Starting servers with gates, and asking what they do.
// SPDX-License-Identifier: Apache-2.0
#include "tests/lifecycle/network_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "net/control/authorized_keys.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

uint16_t free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return ntohs(address.sin_port);
}

// "pid (comm) state ppid …"; the command lines tell a gate of this server from others.
bool is_gate_of(const std::filesystem::path& process, const std::string& mark) {
  std::ifstream file(process / "environ", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::error_code error;
  const auto program = std::filesystem::read_symlink(process / "exe", error);
  return !error && program.filename() == "vgpu-gate" && text.find(mark) != std::string::npos;
}

}  // namespace

net::KeyPair fresh_keys() {
  char public_key[41], secret_key[41];
  EXPECT_EQ(zmq_curve_keypair(public_key, secret_key), 0);
  return net::KeyPair(public_key, secret_key);
}

NetworkServer::NetworkServer(std::vector<std::string> more) : key_(fresh_keys()) {
  char folder[] = "/tmp/vgpu-net-XXXXXX";
  folder_ = mkdtemp(folder);
  EXPECT_TRUE(net::write_key_file(folder_ + "/server.key", key_, false).ok());
  address_ = *protocol::parse_address("tcp://127.0.0.1:" + std::to_string(free_port()));
  std::vector<std::string> arguments = {"--listen",          address_.to_string(),
                                        "--server-key",      folder_ + "/server.key",
                                        "--authorized-keys", folder_ + "/authorized_keys"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  setenv("VGPU_TEST_MARK", folder_.c_str(), 1);  // found again in the gates' environments
  vgpud_ = std::make_unique<ServerProcess>(arguments);
}

NetworkServer::~NetworkServer() {
  vgpud_.reset();
  EXPECT_TRUE(eventually([this] { return gates().empty(); })) << "a gate outlives its server";
  std::filesystem::remove_all(folder_);
}

void NetworkServer::start() {
  vgpud_->start();
  ASSERT_TRUE(eventually([this] { return use().has_value(); })) << "the gate does not listen";
}

net::KeyPair NetworkServer::admit(const std::string& tenant) {
  net::KeyPair pair = fresh_keys();
  const Status done = net::authorize(folder_ + "/authorized_keys", {pair.public_key, tenant, ""});
  EXPECT_TRUE(done.ok()) << done.to_string();
  return pair;
}

void NetworkServer::revoke(const std::string& whom) {
  size_t removed = 0;
  EXPECT_TRUE(net::revoke(folder_ + "/authorized_keys", whom, &removed).ok());
}

net::ClientKeys NetworkServer::keys_for(const net::KeyPair& own) const {
  net::ClientKeys keys;
  keys.own = net::KeyPair(own.public_key, own.secret_key);
  keys.server = key_.public_key;
  return keys;
}

std::optional<protocol::NetworkUse> NetworkServer::use() const {
  const auto info = vgpud_->info();
  if (!info || info->networks.empty()) return std::nullopt;
  return info->networks[0];
}

std::vector<protocol::GuestInfo> NetworkServer::guests() const {
  const auto info = vgpud_->info();
  return info ? info->guests : std::vector<protocol::GuestInfo>(999);
}

std::vector<pid_t> NetworkServer::gates() const {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (is_gate_of(entry.path(), "VGPU_TEST_MARK=" + folder_)) found.push_back(std::stoi(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

net::ControlAnswer net_attach(const NetworkServer& server, const net::KeyPair& own,
                              protocol::NetAttach asked) {
  return net::ask_server(server.address(), server.keys_for(own), asked, 20'000);
}

net::ControlAnswer net_attach(const NetworkServer& server, const net::KeyPair& own) {
  protocol::NetAttach asked;
  asked.hello = test_hello(uint64_t{64} << 20);
  asked.hello.pid = getpid();
  return net_attach(server, own, asked);
}

double hangs_up_after(int lifeline, int limit_ms) {
  const double begin = now_ms();
  pollfd watched{lifeline, POLLRDHUP, 0};
  return poll(&watched, 1, limit_ms) > 0 ? now_ms() - begin : -1;
}

}  // namespace vgpu::testing
