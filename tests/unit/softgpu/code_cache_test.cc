// The cache of compiled kernels: what it keeps, whom it trusts, how large it grows.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/code_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace vgpu::softgpu {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kRoom = 64 << 20;

std::string key(unsigned number) {
  char text[33];
  std::snprintf(text, sizeof text, "%032x", number);
  return text;
}

ObjectCode some_code(size_t bytes, char fill) {
  ObjectCode code;
  code.bytes.assign(bytes, fill);
  code.symbols = {"table", "counter"};
  code.save_bytes = 640;
  code.local_bytes = 16;
  code.shared_bytes = 4096;
  return code;
}

class CodeCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/vgpu-code-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string folder_;
};

TEST_F(CodeCacheTest, GivesBackWhatWasStored) {
  CodeCache cache(folder_, kRoom);
  ObjectCode got;
  EXPECT_FALSE(cache.find(key(1), &got));
  cache.store(key(1), some_code(1000, 'a'));
  ASSERT_TRUE(CodeCache(folder_, kRoom).find(key(1), &got)) << "another process finds it";
  EXPECT_EQ(got.bytes, std::string(1000, 'a'));
  EXPECT_EQ(got.symbols, (std::vector<std::string>{"table", "counter"}));
  EXPECT_EQ(got.save_bytes, 640u);
  EXPECT_EQ(got.local_bytes, 16u);
  EXPECT_EQ(got.shared_bytes, 4096u);
  EXPECT_FALSE(cache.find(key(2), &got));
}

TEST_F(CodeCacheTest, CreatesItsFolderThatNobodyElseWrites) {
  const std::string deep = folder_ + "/a/b";
  CodeCache cache(deep, kRoom);
  EXPECT_TRUE(cache.enabled());
  struct stat info;
  ASSERT_EQ(::stat(deep.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, ::geteuid() == 0 ? 0755u : 0700u) << "root's workers read it";
}

TEST_F(CodeCacheTest, EmptyNameIsOff) {
  CodeCache cache("", kRoom);
  EXPECT_FALSE(cache.enabled());
  cache.store(key(1), some_code(10, 'a'));
  ObjectCode got;
  EXPECT_FALSE(cache.find(key(1), &got));
}

// Every byte of a file matters, and so does its length.
TEST_F(CodeCacheTest, DamagedFilesAreIgnoredAndReplaced) {
  CodeCache cache(folder_, kRoom);
  const std::string path = folder_ + "/" + key(1);
  cache.store(key(1), some_code(100, 'a'));
  const auto size = fs::file_size(path);
  ObjectCode got;
  for (uintmax_t at = 0; at < size; at += 7) {
    cache.store(key(1), some_code(100, 'a'));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char was = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(was ^ 0x20));
    file.close();
    ASSERT_FALSE(cache.find(key(1), &got)) << "byte " << at;
  }
  for (uintmax_t length : {uintmax_t{0}, uintmax_t{10}, size / 2, size - 1}) {
    cache.store(key(1), some_code(100, 'a'));
    fs::resize_file(path, length);
    ASSERT_FALSE(cache.find(key(1), &got)) << "length " << length;
  }
  cache.store(key(1), some_code(100, 'b'));
  ASSERT_TRUE(cache.find(key(1), &got));
  EXPECT_EQ(got.bytes[0], 'b');
}

TEST_F(CodeCacheTest, AFileUnderAnotherNameIsNotTaken) {
  CodeCache cache(folder_, kRoom);
  cache.store(key(1), some_code(100, 'a'));
  fs::rename(folder_ + "/" + key(1), folder_ + "/" + key(2));
  ObjectCode got;
  EXPECT_FALSE(cache.find(key(2), &got));
}

TEST_F(CodeCacheTest, FoldersThatOthersMayWriteAreNotUsed) {
  for (mode_t mode : {0770u, 0707u, 0777u, 01777u}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    EXPECT_FALSE(CodeCache(folder_, kRoom).enabled()) << std::oct << mode;
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(CodeCache(folder_, kRoom).enabled());
}

TEST_F(CodeCacheTest, FoldersOfOthersAreNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(CodeCache(folder_, kRoom).enabled());
}

TEST_F(CodeCacheTest, FilesThatOthersMayWriteAndLinksAreNotUsed) {
  CodeCache cache(folder_, kRoom);
  cache.store(key(1), some_code(100, 'a'));
  const std::string path = folder_ + "/" + key(1);
  ObjectCode got;
  ASSERT_EQ(::chmod(path.c_str(), 0620), 0);
  EXPECT_FALSE(cache.find(key(1), &got));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(cache.find(key(1), &got));
  fs::rename(path, folder_ + "/elsewhere");
  fs::create_symlink("elsewhere", path);
  EXPECT_FALSE(cache.find(key(1), &got));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(cache.find(key(1), &got)) << "and does not wait for a writer";
}

TEST_F(CodeCacheTest, RemovesWhatWasUnusedForLongest) {
  constexpr uint64_t kSmallRoom = 100'000;
  ObjectCode got;
  CodeCache cache(folder_, kSmallRoom);
  { std::ofstream(folder_ + "/README") << std::string(1'000'000, 'x'); }
  const auto start = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (unsigned i = 0; i < 40; ++i) {
    cache.store(key(i), some_code(10'000, 'a'));
    ASSERT_TRUE(cache.find(key(0), &got)) << "used all the time, after " << i;
    if (i == 0) continue;
    fs::last_write_time(folder_ + "/" + key(i), start + std::chrono::seconds(i));
  }
  uint64_t total = 0;
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (file.path().filename() != "README") total += file.file_size();
  }
  EXPECT_LE(total, kSmallRoom + kSmallRoom / 8);
  EXPECT_TRUE(cache.find(key(39), &got));
  EXPECT_FALSE(cache.find(key(1), &got));
  EXPECT_TRUE(fs::exists(folder_ + "/README")) << "what is not a compiled kernel is left alone";
}

// Many writers of the same keys and readers at once: a reader sees nothing or one whole version.
TEST_F(CodeCacheTest, WritersAndReadersAtOnce) {
  constexpr unsigned kThreads = 4, kRounds = 100, kKeys = 3;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      CodeCache cache(folder_, kRoom);
      for (unsigned round = 0; round < kRounds; ++round) {
        const char fill = static_cast<char>('a' + t);
        cache.store(key(round % kKeys), some_code(5000 + 1000 * t, fill));
        ObjectCode got;
        if (!cache.find(key(round % kKeys), &got)) ++wrong;
        if (got.bytes.find_first_not_of(got.bytes[0]) != std::string::npos) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files(), kKeys) << "no temporary file is left";
}

TEST_F(CodeCacheTest, AFolderThatCannotBeWrittenIsStillRead) {
  CodeCache(folder_, kRoom).store(key(1), some_code(100, 'a'));
  ASSERT_EQ(::chmod(folder_.c_str(), 0500), 0);
  CodeCache cache(folder_, kRoom);
  ObjectCode got;
  EXPECT_TRUE(cache.find(key(1), &got));
  cache.store(key(2), some_code(100, 'a'));
  if (::geteuid() != 0) {
    EXPECT_FALSE(cache.find(key(2), &got));
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
}

}  // namespace
}  // namespace vgpu::softgpu
