// How a server with a gate is started, and when it is not.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "protocol/session/handshake.h"
#include "tests/lifecycle/network_server.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

TEST(NetworkEncryption, TheServerMayRequireIt) {
  NetworkServer server({"--require-encryption"});
  server.start();
  const net::KeyPair own = server.admit("team-a");
  const net::ControlAnswer answer = net_attach(server, own);
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_TRUE(server.guests().empty());
}

// Neither users nor groups nor a token, only keys.
TEST(NetworkTenants, ATenantMayHaveKeysAlone) {
  char folder[] = "/tmp/vgpu-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/vgpud.toml";
  std::ofstream(file) << "[profile.small]\nmemory = \"32M\"\n"
                         "[tenant.team-a]\nmemory = \"64M\"\nguests = 1\n";
  {
    NetworkServer server({"--config", file});
    server.start();
    const net::KeyPair own = server.admit("team-a"), other = server.admit("team-b");
    protocol::NetAttach asked;
    asked.hello = test_hello(16 << 20);
    const net::ControlAnswer answer = net_attach(server, own, asked);
    ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
    ASSERT_EQ(server.guests().size(), 1u);
    EXPECT_EQ(server.guests()[0].tenant, "team-a");
    EXPECT_EQ(net_attach(server, other, asked).cuda_error, CUDA_ERROR_NOT_PERMITTED);
    EXPECT_NE(net_attach(server, own, asked).status.text().find("guests"), std::string::npos);
    // Of this host nobody is of it.
    EXPECT_EQ(protocol::attach(server.vgpud().address(), asked.hello, 20'000).cuda_error,
              CUDA_ERROR_NOT_PERMITTED);
  }
  const Finished local = run_program({VGPUD, "--config", file, "--check-config"});
  EXPECT_NE(local.code, 0);
  EXPECT_NE(local.output.find("nobody can be of it"), std::string::npos) << local.output;
  std::filesystem::remove_all(folder);
}

TEST(NetworkStart, WithoutAKeyTheServerDoesNotStart) {
  NetworkServer server;
  std::filesystem::remove(server.folder() + "/server.key");
  const Finished finished = run_program({VGPUD, "--listen", "unix:" + server.folder() + "/s",
                                         "--listen", server.address().to_string(), "--server-key",
                                         server.folder() + "/server.key", "--driver", "soft"},
                                        {std::string("VGPU_SOFT_DRIVER=") + MEMORY_DRIVER});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.output.find("server.key cannot be opened"), std::string::npos)
      << finished.output;
}

TEST(NetworkStart, AnAddressThatIsTakenIsSaid) {
  NetworkServer server;
  server.start();
  const Finished finished = run_program({VGPUD, "--listen", "unix:" + server.folder() + "/s",
                                         "--listen", server.address().to_string(), "--server-key",
                                         server.folder() + "/server.key", "--driver", "soft"},
                                        {std::string("VGPU_SOFT_DRIVER=") + MEMORY_DRIVER});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.output.find("Address already in use"), std::string::npos) << finished.output;
}

}  // namespace
}  // namespace vgpu::testing
