// Key files: who may read them, what they hold; known servers.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zmq.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "net/control/small_file.h"

namespace vgpu::net {
namespace {

// A fresh folder that is this user's configuration.
class Keys : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/vgpu-keys-XXXXXX";
    folder_ = mkdtemp(folder);
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    unsetenv("VGPU_SERVER_KEY");
    unsetenv("VGPU_KEY");
  }
  void TearDown() override {
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("VGPU_SERVER_KEY");
    std::filesystem::remove_all(folder_);
  }
  static KeyPair fresh() {
    char public_key[41], secret_key[41];
    EXPECT_EQ(zmq_curve_keypair(public_key, secret_key), 0);
    return KeyPair(public_key, secret_key);
  }
  std::string file(const char* name) const { return folder_ + "/" + name; }
  std::string folder_;
};

protocol::Address server(const char* text) { return *protocol::parse_address(text); }

TEST_F(Keys, AreFortyCharactersOfZ85) {
  EXPECT_TRUE(is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"));
  EXPECT_TRUE(is_key(fresh().public_key));
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf"));
  EXPECT_FALSE(is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf 7"));
  EXPECT_FALSE(is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf\""));
}

TEST_F(Keys, SurviveTheirFile) {
  const KeyPair pair = fresh();
  const std::string path = file("new/folder/guest.key");
  ASSERT_TRUE(write_key_file(path, pair, false).ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const Result<KeyPair> read = read_key_file(path);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->public_key, pair.public_key);
  EXPECT_EQ(read->secret_key, pair.secret_key);
}

TEST_F(Keys, AreNotOverwritten) {
  const std::string path = file("guest.key");
  const KeyPair first = fresh();
  ASSERT_TRUE(write_key_file(path, first, false).ok());
  EXPECT_EQ(write_key_file(path, fresh(), false).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(read_key_file(path)->public_key, first.public_key);
  const KeyPair second = fresh();
  EXPECT_TRUE(write_key_file(path, second, true).ok());
  EXPECT_EQ(read_key_file(path)->public_key, second.public_key);
}

TEST_F(Keys, OfOthersAreRefused) {
  const std::string path = file("guest.key");
  ASSERT_TRUE(write_key_file(path, fresh(), false).ok());
  for (const mode_t mode : {0640, 0604, 0660, 0622}) {
    chmod(path.c_str(), mode);
    EXPECT_EQ(read_key_file(path).status().code(), StatusCode::kPermissionDenied) << mode;
  }
  chmod(path.c_str(), 0400);
  EXPECT_TRUE(read_key_file(path).ok());
  EXPECT_EQ(read_key_file(file("absent")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(read_key_file(folder_).status().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_key_file(file("pipe")).status().code(), StatusCode::kPermissionDenied);
}

TEST_F(Keys, OfOtherFormsAreRefused) {
  const std::string path = file("guest.key");
  const KeyPair pair = fresh();
  for (const std::string& text :
       {std::string(), std::string("public\nsecret\n"), "public " + pair.public_key + "\n",
        "public " + pair.public_key + "\nsecret " + pair.secret_key.substr(1) + "\n"}) {
    ASSERT_TRUE(write_small_file(path, text, 0600, true).ok());
    EXPECT_EQ(read_key_file(path).status().code(), StatusCode::kInvalidArgument) << text;
  }
  ASSERT_TRUE(write_small_file(path, std::string(kFileBytesMax + 1, ' '), 0600, true).ok());
  EXPECT_EQ(read_key_file(path).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(Keys, OfServersAreKnownByPlace) {
  const protocol::Address one = server("tcp://one:7470"), two = server("tcp://two:7470");
  EXPECT_EQ(known_server_key(one).status().code(), StatusCode::kNotFound);
  const std::string path = file("vgpu/known_servers");
  const std::string a = fresh().public_key, b = fresh().public_key;
  ASSERT_TRUE(
      write_small_file(path, "# mine\none:7470 " + a + " lab\ntwo:7471 " + b + "\n", 0600, true)
          .ok());
  EXPECT_EQ(*known_server_key(one), a);
  EXPECT_FALSE(known_server_key(two).ok()) << "another port is another server";
  chmod(path.c_str(), 0666);
  EXPECT_EQ(known_server_key(one).status().code(), StatusCode::kPermissionDenied)
      << "what others may write says nothing";
  setenv("VGPU_SERVER_KEY", b.c_str(), 1);
  EXPECT_EQ(*known_server_key(one), b);
  setenv("VGPU_SERVER_KEY", "short", 1);
  EXPECT_EQ(known_server_key(one).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Keys, OfServersAreRemembered) {
  const protocol::Address one = server("tcp://one:7470"), two = server("tcp://two:7470");
  const std::string a = fresh().public_key, b = fresh().public_key;
  ASSERT_TRUE(remember_server(one, a).ok());
  ASSERT_TRUE(remember_server(two, b).ok());
  EXPECT_EQ(*known_server_key(one), a);
  EXPECT_EQ(*known_server_key(two), b);
  ASSERT_TRUE(remember_server(one, b).ok());
  EXPECT_EQ(*known_server_key(one), b) << "a new key takes the old one's place";
  EXPECT_EQ(*read_small_file(file("vgpu/known_servers"), Trust::kWrite),
            "two:7470 " + b + "\none:7470 " + b + "\n");
}

TEST(KeyFiles, WordsAndLinesKeepKeysThatLookLikeComments) {
  const auto lines = lines_of("# a comment\n#\n#ey b\n\nlast");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "");
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(lines[2], "#ey b");
  EXPECT_EQ(words_of(lines[2]), (std::vector<std::string_view>{"#ey", "b"}));
  EXPECT_EQ(words_of("  a\t b  "), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_TRUE(words_of(" \t ").empty());
}

}  // namespace
}  // namespace vgpu::net
