// Server addresses: grammar and defaults.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "protocol/transport/connect.h"

namespace vgpu::protocol {
namespace {

TEST(Address, Grammar) {
  EXPECT_EQ(parse_address("unix:/run/x.sock")->path, "/run/x.sock");
  EXPECT_EQ(parse_address("/run/x.sock")->to_string(), "unix:/run/x.sock");
  EXPECT_EQ(parse_address("loop:")->kind, Address::Kind::kLoop);
  EXPECT_EQ(parse_address("unix:relative").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parse_address("unix:").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parse_address("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parse_address("rdma://host:1").status().code(), StatusCode::kNotSupported);
  const std::string path = "/" + std::string(106, 'a');
  EXPECT_TRUE(parse_address("unix:" + path).ok());
  EXPECT_EQ(parse_address("unix:" + path + "b").status().code(), StatusCode::kInvalidArgument);
}

TEST(Address, OfANetwork) {
  const Result<Address> plain = parse_address("tcp://gpu-1.example.org:7000");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->kind, Address::Kind::kTcp);
  EXPECT_EQ(plain->host, "gpu-1.example.org");
  EXPECT_EQ(plain->port, 7000);
  EXPECT_EQ(plain->provider, "");
  for (const char* text : {"tcp://10.0.0.1:65535", "tcp://[fe80::1%eth0]:1", "tcp://*:0",
                           "tcp://h:7?provider=verbs", "tcp://h:7?provider=tcp;ofi_rxm"}) {
    const Result<Address> address = parse_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->to_string(), text);
  }
  EXPECT_EQ(parse_address("tcp://h:7?provider=verbs")->endpoint(), "tcp://h:7");
  for (const char* text :
       {"tcp://", "tcp://h", "tcp://:1", "tcp://h:", "tcp://h:65536", "tcp://h:-1", "tcp://h:+1",
        "tcp://h:0x10", "tcp://h:1x", "tcp://h h:1", "tcp://h/x:1", "tcp://::1:1", "tcp://[]:1",
        "tcp://[::1:1", "tcp://h:1?", "tcp://h:1?provider=", "tcp://h:1?size=1",
        "tcp://h:1?provider=a&b", "tcp://h\n:1"}) {
    EXPECT_EQ(parse_address(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Address, Defaults) {
  ::setenv("VGPU_SERVER", "unix:/somewhere/else", 1);
  EXPECT_EQ(default_address()->path, "/somewhere/else");
  ::setenv("VGPU_SERVER", "nonsense", 1);
  EXPECT_FALSE(default_address().ok());
  ::unsetenv("VGPU_SERVER");
  ::setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
  EXPECT_EQ(default_listen_address().path, "/nowhere/vgpu/vgpud.sock");
  ::unsetenv("XDG_RUNTIME_DIR");
  const std::string expected = ::getuid() == 0
                                   ? "/run/vgpu/vgpud.sock"
                                   : "/tmp/vgpu-" + std::to_string(::getuid()) + "/vgpud.sock";
  EXPECT_EQ(default_listen_address().path, expected);
}

TEST(Address, NobodyThereNamesThePath) {
  const Result<UniqueFd> fd = connect_unix("/nonexistent/vgpud.sock");
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(fd.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(fd.status().text().find("unix:/nonexistent/vgpud.sock"), std::string::npos);
}

class Listening : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/vgpu-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    ::unlink((folder_ + "/sub/s.sock").c_str());
    ::rmdir((folder_ + "/sub").c_str());
    ::rmdir(folder_.c_str());
  }
  std::string folder_;
};

TEST_F(Listening, MakesItsFolderAndReplacesADeadSocket) {
  const std::string path = folder_ + "/sub/s.sock";
  Result<UniqueFd> first = listen_unix(path, 0600);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(accept_unix(first->get()).status().code(), StatusCode::kTimedOut);
  Result<UniqueFd> guest = connect_unix(path);
  ASSERT_TRUE(guest.ok());
  EXPECT_TRUE(accept_unix(first->get()).ok());
  EXPECT_EQ(listen_unix(path, 0600).status().code(), StatusCode::kAlreadyExists);
  first->reset();
  EXPECT_TRUE(listen_unix(path, 0600).ok());
}

}  // namespace
}  // namespace vgpu::protocol
