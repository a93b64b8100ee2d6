// The dialogue with an MPS control daemon, played by small programs.
// SPDX-License-Identifier: Apache-2.0
#include "server/mps_control.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.h"

namespace vgpu::server {
namespace {

constexpr int kPatientMs = 30'000, kShortMs = 300;

// A control program: a shell script that reads one command into $command.
class MpsControlTest : public testing::Test {
 protected:
  MpsControlTest() {
    char folder[] = "/tmp/vgpu-mps-XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~MpsControlTest() override { std::filesystem::remove_all(root_); }
  MpsControl control(const std::string& body) {
    const std::string program = root_ + "/control";
    std::ofstream(program) << "#!/bin/sh\nread -r command\ncd '" << root_ << "'\n"
                           << "echo \"$command\" >> heard\n"
                           << body << "\n";
    EXPECT_EQ(chmod(program.c_str(), 0700), 0);
    return {program, root_ + "/pipes of 'one'; $(tenant)", root_ + "/log"};
  }
  // Server 500 has clients 600 and 601 until they are terminated, server 501 has none.
  MpsControl documented() {
    return control(R"(case "$command" in
get_server_list) echo 501; echo 500;;
"get_client_list 500") [ -e gone ] || echo 600; echo 601;;
"get_client_list 501") ;;
"terminate_client 500 600") echo 0; touch gone;;
"terminate_client 500 601") echo 0;;
quit) ;;
*) echo unknown; exit 1;;
esac)");
  }
  std::string heard() const {
    std::ifstream file(root_ + "/heard");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string root_;
};

TEST_F(MpsControlTest, ServersAndClientsAreListed) {
  const MpsControl mps = documented();
  const auto servers = mps.servers(kPatientMs);
  ASSERT_TRUE(servers.ok()) << servers.status().to_string();
  EXPECT_EQ(*servers, (std::vector<pid_t>{501, 500}));
  const auto clients = mps.clients(500, kPatientMs);
  ASSERT_TRUE(clients.ok()) << clients.status().to_string();
  EXPECT_EQ(*clients, (std::vector<pid_t>{600, 601}));
  const auto none = mps.clients(501, kPatientMs);
  ASSERT_TRUE(none.ok()) << none.status().to_string();
  EXPECT_TRUE(none->empty());
}

TEST_F(MpsControlTest, AClientIsEndedOnTheServerThatHasIt) {
  const MpsControl mps = documented();
  const Status ended = mps.end_client(600, kPatientMs);
  EXPECT_TRUE(ended.ok()) << ended.to_string();
  EXPECT_NE(heard().find("terminate_client 500 600\n"), std::string::npos);
  EXPECT_TRUE(mps.end_client(600, kPatientMs).ok()) << "it is gone already";
  EXPECT_EQ(heard().find("terminate_client"), heard().rfind("terminate_client"));
}

TEST_F(MpsControlTest, AClientThatStaysIsAFailureInBoundedTime) {
  const uint64_t before = monotonic_ns();
  EXPECT_EQ(documented().end_client(601, kShortMs).code(), StatusCode::kTimedOut);
  EXPECT_GE(monotonic_ns() - before, kShortMs * uint64_t{1'000'000});
  EXPECT_LT(monotonic_ns() - before, 20'000'000'000U);
}

TEST_F(MpsControlTest, QuitIsSaid) {
  EXPECT_TRUE(documented().quit(kPatientMs).ok());
  EXPECT_EQ(heard(), "quit\n");
}

TEST_F(MpsControlTest, ADaemonThatIsGoneIsUnavailable) {
  const MpsControl mps = control("echo 'Cannot find MPS control daemon process'; exit 1");
  EXPECT_EQ(mps.servers(kPatientMs).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(mps.end_client(600, kPatientMs).code(), StatusCode::kUnavailable);
  EXPECT_EQ(mps.quit(kPatientMs).code(), StatusCode::kUnavailable);
  EXPECT_EQ(control("kill -9 $$").quit(kPatientMs).code(), StatusCode::kUnavailable);
  const MpsControl nothing(root_ + "/no-such-program", root_, root_);
  EXPECT_EQ(nothing.quit(kPatientMs).code(), StatusCode::kUnavailable);
}

TEST_F(MpsControlTest, SilenceEndsWithTheTimeAndTheProgramWithIt) {
  const MpsControl mps = control("echo $$ > pid; sleep 1000");
  const uint64_t before = monotonic_ns();
  EXPECT_EQ(mps.servers(2000).status().code(), StatusCode::kTimedOut);
  EXPECT_LT(monotonic_ns() - before, 60'000'000'000U);
  pid_t pid = 0;
  std::ifstream(root_ + "/pid") >> pid;
  ASSERT_GT(pid, 1) << "it was not started in time";
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
  // One that has answered and stays is not an answer.
  EXPECT_EQ(control("echo 500; exec >&- <&-; sleep 1000").servers(kShortMs).status().code(),
            StatusCode::kTimedOut);
}

TEST_F(MpsControlTest, GarbageIsNoAnswer) {
  for (const char* text : {"abc", "500 600", "-5", "0", "1", "99999999999", "0x1f4", "500;quit"}) {
    EXPECT_EQ(parse_mps_pids(text).status().code(), StatusCode::kMalformed) << text;
    EXPECT_EQ(control(std::string("echo '") + text + "'").end_client(600, kPatientMs).code(),
              StatusCode::kMalformed)
        << text;
  }
  EXPECT_EQ(control("yes 500").servers(kPatientMs).status().code(), StatusCode::kMalformed);
  EXPECT_TRUE(parse_mps_pids("").ok());
}

TEST_F(MpsControlTest, TheEnvironmentNamesTheDaemonAndNothingElse) {
  ASSERT_EQ(setenv("CUDA_MPS_CLIENT_PRIORITY", "1", 1), 0);
  const MpsControl mps = control("env > environment");
  ASSERT_TRUE(mps.quit(kPatientMs).ok());
  unsetenv("CUDA_MPS_CLIENT_PRIORITY");
  std::ifstream file(root_ + "/environment");
  std::stringstream text;
  text << file.rdbuf();
  // Names are taken as they are: no shell of ours reads them.
  EXPECT_NE(text.str().find("CUDA_MPS_PIPE_DIRECTORY=" + root_ + "/pipes of 'one'; $(tenant)\n"),
            std::string::npos);
  EXPECT_NE(text.str().find("CUDA_MPS_LOG_DIRECTORY=" + root_ + "/log\n"), std::string::npos);
  EXPECT_EQ(text.str().find("CUDA_MPS_CLIENT_PRIORITY"), std::string::npos);
}

}  // namespace
}  // namespace vgpu::server
