// How a server with a gate is started, and when it is not.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/lifecycle/network_server.h"

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
