// Standard output and error of a worker: kept, fetched in pieces, bounded. Each test runs in a
// child, whose own output goes. SPDX-License-Identifier: Apache-2.0
#include "server/output.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace vgpu::server {
namespace {

// The line of the first check that fails in a child; 0 when all hold.
int in_child(const std::function<int()>& run) {
  const pid_t pid = fork();
  if (pid == 0) _exit(run());
  int status = -1;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHECK_IN_CHILD(condition) \
  if (!(condition)) return __LINE__ % 250 + 1

std::string fetch(Output* output, bool error, size_t room) {
  std::vector<std::byte> bytes(room);
  const size_t got = output->fetch(error, bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), got);
}

TEST(Output, BothKindsArriveInPieces) {
  EXPECT_EQ(in_child([] {
              Output output;
              uint64_t published = 0;
              CHECK_IN_CHILD(output.take_over().ok());
              output.set_publish([&published](uint64_t bytes) { published = bytes; });
              std::printf("hello %d\n", 1);
              std::fprintf(stderr, "error %d\n", 2);
              output.publish();
              CHECK_IN_CHILD(published == 16);
              CHECK_IN_CHILD(fetch(&output, false, 3) == "hel");
              CHECK_IN_CHILD(fetch(&output, false, 100) == "lo 1\n");
              CHECK_IN_CHILD(fetch(&output, false, 100).empty());
              CHECK_IN_CHILD(output.passed() == 8);
              CHECK_IN_CHILD(fetch(&output, true, 100) == "error 2\n");
              CHECK_IN_CHILD(output.passed() == 16);
              std::printf("more\n");
              output.publish();
              CHECK_IN_CHILD(published == 21);
              CHECK_IN_CHILD(fetch(&output, false, 100) == "more\n");
              return 0;
            }),
            0);
}

// Nobody fetches: the newest part is kept, and memory does not grow with what was written.
TEST(Output, IsBounded) {
  EXPECT_EQ(
      in_child([] {
        Output output;
        uint64_t published = 0;
        CHECK_IN_CHILD(output.take_over().ok());
        output.set_publish([&published](uint64_t bytes) { published = bytes; });
        const std::string piece(1 << 20, 'x');
        const uint64_t pieces = 2 * kOutputBytesMax / piece.size();
        for (uint64_t i = 0; i < pieces; ++i) {
          CHECK_IN_CHILD(write(1, piece.data(), piece.size()) > 0);
          output.publish();
        }
        CHECK_IN_CHILD(write(1, "end", 3) == 3);
        output.publish();
        CHECK_IN_CHILD(published == pieces * piece.size() + 3);
        CHECK_IN_CHILD(output.passed() == published - kOutputBytesMax);
        struct stat info {};
        CHECK_IN_CHILD(fstat(1, &info) == 0);
        CHECK_IN_CHILD(static_cast<uint64_t>(info.st_blocks) * 512 <= kOutputBytesMax + (1 << 20));
        uint64_t bytes = 0;
        std::string text, last;
        while (!(text = fetch(&output, false, 1 << 20)).empty()) {
          bytes += text.size();
          last = text;
        }
        CHECK_IN_CHILD(bytes == kOutputBytesMax);
        CHECK_IN_CHILD(last.substr(last.size() - 3) == "end");
        return 0;
      }),
      0);
}

// What is still unread when the process gives up, and only that.
TEST(Output, LastWordsGoToTheLog) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (!process_output().take_over().ok()) _exit(1);
    spill_output_at_death(ends[1]);
    std::fprintf(stderr, "fetched\n");
    if (fetch(&process_output(), true, 100) != "fetched\n") _exit(2);
    std::fprintf(stderr, "\x1b[2Jfree(): invalid pointer\n");
    std::abort();
  }
  close(ends[1]);
  std::string text;
  char piece[256];
  for (ssize_t got = 0; (got = read(ends[0], piece, sizeof(piece))) > 0;)
    text.append(piece, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  EXPECT_EQ(text, "vgpu-worker ends; on its standard error stood:\n?[2Jfree(): invalid pointer\n");
}

TEST(Output, NothingWhereTheDriverPrintsInTheGuest) {
  Output output;
  output.publish();
  EXPECT_EQ(fetch(&output, false, 100), "");
}

}  // namespace
}  // namespace vgpu::server
