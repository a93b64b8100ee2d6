// Who is admitted: reading, changing and watching the file.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/authorized_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zmq.h>

#include <cstdlib>
#include <filesystem>

#include "net/control/small_file.h"

namespace vgpu::net {
namespace {

class Authorized : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/vgpu-authorized-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/authorized_keys";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string fresh() {
    char public_key[41], secret_key[41];
    EXPECT_EQ(zmq_curve_keypair(public_key, secret_key), 0);
    return public_key;
  }
  std::string folder_, path_;
};

TEST_F(Authorized, LinesAreKeyTenantComment) {
  const std::string a = fresh(), b = "#" + fresh().substr(1);
  std::vector<std::string> faults;
  const auto entries = parse_authorized_keys(
      "# who\n" + a + " team-a alice at home\n\n" + b + " team.b\nshort team\n" + a + "\n" + a +
          " bad/tenant\n" + a + " " + std::string(64, 't') + "\n",
      &faults);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].key, a);
  EXPECT_EQ(entries[0].tenant, "team-a");
  EXPECT_EQ(entries[0].comment, "alice at home");
  EXPECT_EQ(entries[1].key, b);
  ASSERT_EQ(faults.size(), 4u);
  EXPECT_NE(faults[0].find("line 5"), std::string::npos) << faults[0];
}

TEST_F(Authorized, ComeAndGoWhileTheServerRuns) {
  AuthorizedKeys keys(path_);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.count(), 0u);
  EXPECT_FALSE(keys.refresh()) << "nothing has changed";
  const std::string a = fresh(), b = fresh();
  ASSERT_TRUE(authorize(path_, {a, "one", "first"}).ok());
  ASSERT_TRUE(authorize(path_, {b, "two", ""}).ok());
  EXPECT_TRUE(keys.refresh());
  ASSERT_NE(keys.tenant_of(a), nullptr);
  EXPECT_EQ(*keys.tenant_of(a), "one");
  ASSERT_TRUE(authorize(path_, {a, "three", ""}).ok());
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(*keys.tenant_of(a), "three");
  EXPECT_EQ(keys.count(), 2u) << "a key has one tenant";
  size_t removed = 0;
  ASSERT_TRUE(revoke(path_, "three", &removed).ok());
  EXPECT_EQ(removed, 1u);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.tenant_of(a), nullptr);
  EXPECT_NE(keys.tenant_of(b), nullptr);
  ASSERT_TRUE(revoke(path_, b, &removed).ok());
  EXPECT_EQ(revoke(path_, b, &removed).code(), StatusCode::kNotFound);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.count(), 0u);
}

TEST_F(Authorized, NobodyIsWhenOthersMayWriteOrTheFileIsGone) {
  const std::string a = fresh();
  ASSERT_TRUE(authorize(path_, {a, "one", ""}).ok());
  AuthorizedKeys keys(path_);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.count(), 1u);
  chmod(path_.c_str(), 0666);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.count(), 0u);
  chmod(path_.c_str(), 0644);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.count(), 1u);
  std::filesystem::remove(path_);
  EXPECT_TRUE(keys.refresh());
  EXPECT_EQ(keys.count(), 0u);
}

TEST_F(Authorized, WhatIsNoKeyOrTenantIsNotWritten) {
  const std::string a = fresh();
  EXPECT_EQ(authorize(path_, {"key", "one", ""}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(authorize(path_, {a, "o ne", ""}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(authorize(path_, {a, "", ""}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(authorize(path_, {a, "one", "x\n" + fresh() + " root"}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Authorized, ChangesKeepWhatAPersonWrote) {
  const std::string a = fresh(), b = fresh();
  ASSERT_TRUE(
      write_small_file(path_, "# the lab\n" + a + " lab  two  blanks\n\nodd line", 0600, true)
          .ok());
  ASSERT_TRUE(authorize(path_, {b, "two", ""}).ok());
  EXPECT_EQ(*read_small_file(path_, Trust::kWrite),
            "# the lab\n" + a + " lab  two  blanks\n\nodd line\n" + b + " two\n");
}

}  // namespace
}  // namespace vgpu::net
