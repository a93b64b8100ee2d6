// vgpud.toml: what it means, and where it says what is wrong.
// SPDX-License-Identifier: Apache-2.0
#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/token_file.h"

namespace vgpu::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr char kToken[] = "0123456789abcdefSECRET";

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    char name[] = "/tmp/vgpu-config-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ConfigFileTest() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  Result<ConfigFile> read(const std::string& text) {
    return read_config_file(write("vgpud.toml", text));
  }
  std::string fault(const std::string& text) {
    const Result<ConfigFile> file = read(text);
    return file.ok() ? "good" : file.status().text().substr(folder_.size() + 1);
  }
  std::string folder_;
};

TEST_F(ConfigFileTest, AModeThatIsNotThereIsRefused) {
  EXPECT_EQ(fault("[profile.p]\nmode = \"isolated\"\n"), "good");
  EXPECT_EQ(fault("[profile.p]\nmode = \"mps\"\nthread_percentage = 30\n"), "good");
  EXPECT_THAT(fault("[profile.p]\nmode = \"mps\"\nthread_percentage = 101\n"),
              HasSubstr("thread_percentage"));
  EXPECT_THAT(fault("[profile.p]\nthread_percentage = 30\n"), HasSubstr("mode = \"mps\" only"));
  EXPECT_EQ(fault("[profile.p]\nmode = \"packed\"\n"), "good");
  EXPECT_THAT(fault("[profile.p]\nmode = \"packed\"\nexclusive = true\n"), HasSubstr("exclusive"));
  EXPECT_THAT(fault("[profile.p]\nmode = \"shared\"\n"), HasSubstr("not 'shared'"));
  EXPECT_THAT(fault("[profile.p]\nmode = 1\n"), HasSubstr("vgpud.toml:2:"));
  EXPECT_THAT(fault("[tenant.t]\nuids = [1]\nmode = \"isolated\"\n"), HasSubstr("mode"));
}

TEST_F(ConfigFileTest, ProfilesAndTenantsMeanWhatTheySay) {
  write("tokens", std::string("# of the lab\n\nlab  ") + kToken + "\n");
  const auto file = read(R"(
memory_default = "1G"
token_file = "tokens"
[profile.small]
memory = "2G"
weight = 50
cap = 12.5
priority = "spot"
streams = 16
pinned_memory = "64M"
launch_seconds = 2.5
[profile.whole]
exclusive = true
[tenant.alice]
uids = [1000, "root"]
gids = ["root"]
profiles = ["whole", "small"]
default_profile = "small"
memory = "8G"
guests = 4
[tenant.lab]
)");
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->memory_default, "1G");
  const Profile& small = file->policy.profiles().at("small");
  EXPECT_EQ(small.memory_bytes, 2 * kGiB);
  EXPECT_EQ(small.share, (scheduler::Share{50, scheduler::PriorityClass::kSpot, 125}));
  EXPECT_EQ(small.limits.of(protocol::GuestLimit::kStreams), 16U);
  EXPECT_EQ(small.limits.of(protocol::GuestLimit::kPinnedBytes), kGiB / 16);
  EXPECT_EQ(small.limits.of(protocol::GuestLimit::kLaunchMs), 2500U);
  EXPECT_EQ(small.limits.of(protocol::GuestLimit::kEvents),
            protocol::GuestLimits().of(protocol::GuestLimit::kEvents));
  EXPECT_TRUE(file->policy.profiles().at("whole").exclusive);
  const Tenant* alice = file->policy.tenant("alice");
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->uids, (std::vector<uid_t>{1000, 0}));
  EXPECT_EQ(alice->gids, (std::vector<gid_t>{0}));
  EXPECT_EQ(alice->profiles, (std::vector<std::string>{"small", "whole"}));
  EXPECT_EQ(alice->memory_bytes, 8 * kGiB);
  EXPECT_EQ(alice->guests_max, 4U);
  EXPECT_EQ(file->policy.tenant("lab")->token, kToken);
}

TEST_F(ConfigFileTest, FaultsNameTheirLine) {
  EXPECT_THAT(fault("listen = 5\n"), HasSubstr("vgpud.toml:1: 'listen' must be text"));
  EXPECT_THAT(fault("\nlisten = \n"), HasSubstr("vgpud.toml:2: "));
  EXPECT_THAT(fault("\n\nlisden = \"x\"\n"), HasSubstr("vgpud.toml:3: unknown key 'lisden'"));
  EXPECT_THAT(fault("[profile.p]\nmemory = 5\n"),
              HasSubstr("vgpud.toml:2: profile 'p': 'memory' must be text"));
  EXPECT_THAT(fault("[profile.p]\nmemory = \"much\"\n"),
              HasSubstr(":2: profile 'p': 'memory' must be a size"));
  EXPECT_THAT(fault("[profile.p]\n\nweight = 0\n"), HasSubstr(":3: profile 'p': 'weight' is 0"));
  EXPECT_THAT(fault("[profile.p]\nweight = 10001\n"), HasSubstr(":2:"));
  EXPECT_THAT(fault("[profile.p]\nweight = 1.5\n"), HasSubstr("whole number"));
  EXPECT_THAT(fault("[profile.p]\ncap = 101\n"), HasSubstr("from 0.1 to 100"));
  EXPECT_THAT(fault("[profile.p]\ncap = nan\n"), HasSubstr("from 0.1 to 100"));
  EXPECT_THAT(fault("[profile.p]\npriority = \"high\"\n"), HasSubstr("\"latency\""));
  EXPECT_THAT(fault("[profile.p]\nexclusive = true\nmemory = \"1G\"\n"), HasSubstr(":3:"));
  EXPECT_THAT(fault("[profile.p]\nthreads = 2\n"), HasSubstr("from 16 to 320"));
  EXPECT_THAT(fault("[profile.p]\nqueued_bytes = \"1T\"\n"), HasSubstr("above the most"));
  EXPECT_THAT(fault("[profile.p]\nqueued_bytes = \"1K\"\n"), HasSubstr("below the least"));
  EXPECT_THAT(fault("[profile.'a b']\n"), HasSubstr("cannot be: 'a b'"));
  EXPECT_THAT(fault("profile = 3\n"), HasSubstr("[profile.NAME]"));
  EXPECT_THAT(fault("[tenant]\nx = 3\n"), HasSubstr("'x' must be a table"));
  EXPECT_THAT(fault("[tenant.t]\nuids = 5\n"), HasSubstr(":2: tenant 't': 'uids' must be a list"));
  EXPECT_THAT(fault("[tenant.t]\nuids = [1,\n \"no such user here\"]\n"), HasSubstr(":3:"));
  EXPECT_THAT(fault("[tenant.t]\nuids = [-1]\n"), HasSubstr("names nobody"));
  EXPECT_THAT(fault("[tenant.t]\nuids = [1]\nprofiles = [\"p\"]\n"), HasSubstr("no profile 'p'"));
  EXPECT_THAT(
      fault("[profile.p]\n[tenant.t]\nuids = [1]\nprofiles = [\"p\"]\ndefault_profile = \"q\"\n"),
      HasSubstr(":5: tenant 't': 'default_profile'"));
  EXPECT_THAT(fault("[tenant.t]\nuids = [1]\nguests = 0\n"), HasSubstr(":3:"));
}

TEST_F(ConfigFileTest, TokensAreKeptFromOthersAndNeverSaid) {
  const std::string text = std::string("lab ") + kToken + "\n";
  const std::string config = "token_file = \"tokens\"\n[tenant.lab]\n";
  for (const mode_t mode : {0644, 0620, 0604, 0640}) {
    write("tokens", text, mode);
    EXPECT_THAT(fault(config), HasSubstr("mode 0600")) << mode;
  }
  for (const std::string& wrong : std::vector<std::string>{
           text + text, std::string("lab short\n"), std::string("lab\n"), text + "x y z\n",
           std::string("other ") + kToken + "\n", std::string("a/b ") + kToken + "\n"}) {
    write("tokens", wrong);
    const std::string said = fault(config);
    EXPECT_THAT(said, HasSubstr("vgpud.toml:1: ")) << wrong;
    EXPECT_THAT(said, Not(HasSubstr("SECRET")));
    EXPECT_THAT(said, Not(HasSubstr("short")));
  }
  write("tokens", text, 0400);
  EXPECT_EQ(fault(config), "good");
  std::filesystem::remove(folder_ + "/tokens");
  EXPECT_THAT(fault(config), HasSubstr("No such file"));
  std::filesystem::create_directory(folder_ + "/tokens");
  EXPECT_THAT(fault(config), HasSubstr("not a plain file"));
}

TEST_F(ConfigFileTest, AnothersTokenFileIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string path = write("tokens", "");
  ASSERT_EQ(chown(path.c_str(), 12345, 0), 0);
  EXPECT_THAT(read_token_file(path).status().text(), HasSubstr("belongs to user 12345"));
}

}  // namespace
}  // namespace vgpu::server
