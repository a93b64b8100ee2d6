// The log of failed calls: iterators, dumps, callbacks, CUDA_LOG_FILE.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kDumpBytesMax = 25600;  // cuda.h

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What a dump into `bytes` bytes writes, which must end in a NUL where the driver says.
std::string dump(CUlogIterator* from, size_t bytes = kDumpBytesMax) {
  std::vector<char> buffer(bytes + 1, 'x');
  size_t size = bytes;
  EXPECT_OK(cuLogsDumpToMemory(from, buffer.data(), &size, 0));
  EXPECT_EQ(std::strlen(buffer.data()), size);
  EXPECT_EQ(buffer[bytes], 'x');
  return {buffer.data(), size};
}

CUlogIterator current() {
  CUlogIterator at = 0;
  EXPECT_OK(cuLogsCurrent(&at, 0));
  return at;
}

void fail(int times) {
  for (int i = 0; i < times; ++i) EXPECT_CU(cuDeviceGetCount(nullptr), CUDA_ERROR_INVALID_VALUE);
}

class LogsTest : public ContextTest {};

TEST_F(LogsTest, AFailedCallLeavesALine) {
  CUlogIterator at = current();
  EXPECT_EQ(dump(&at), "");
  int count = 0;
  EXPECT_OK(cuDeviceGetCount(&count));
  const Event event;
  EXPECT_OK(cuEventRecord(event, nullptr));
  (void)driver().cuEventQuery(event);  // not ready is no error
  EXPECT_EQ(dump(&at), "");
  fail(1);
  const std::string text = dump(&at);
  EXPECT_THAT(text, HasSubstr("[CUDA][E]"));
  EXPECT_THAT(text, HasSubstr("CUDA_ERROR_INVALID_VALUE"));
  EXPECT_THAT(text, HasSubstr("cuDeviceGetCount"));
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(dump(&at), "");  // the iterator has moved
  EXPECT_EQ(at, current());
  EXPECT_THAT(dump(nullptr), HasSubstr(text));
}

TEST_F(LogsTest, TheNewestStay) {
  CUlogIterator at = current();
  const CUlogIterator start = at;
  fail(150);
  EXPECT_CU(cuDeviceGetName(nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  const auto lines = lines_of(dump(&at));
  ASSERT_EQ(lines.size(), 101U);
  EXPECT_THAT(lines.front(), HasSubstr("overwritten"));
  EXPECT_THAT(lines.back(), HasSubstr("cuDeviceGetName"));
  at = current();
  fail(3);
  EXPECT_EQ(lines_of(dump(&at)).size(), 3U);
  EXPECT_EQ(at - start, 154U);
}

TEST_F(LogsTest, SmallBuffers) {
  CUlogIterator at = current();
  fail(5);
  EXPECT_CU(cuDeviceGetName(nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CUlogIterator again = at;
  const std::string all = dump(&again);
  const auto whole = lines_of(all);
  ASSERT_EQ(whole.size(), 6U);
  again = at;
  EXPECT_EQ(dump(&again, all.size() + 1), all);
  again = at;
  const auto some = lines_of(dump(&again, all.size()));
  ASSERT_GE(some.size(), 2U);
  EXPECT_LT(some.size(), whole.size() + 1);
  EXPECT_THAT(some.front(), HasSubstr("no room"));
  EXPECT_EQ(some.back(), whole.back());
  EXPECT_EQ(again, current());
  again = at;
  char tiny[8] = "left";
  size_t size = sizeof(tiny);
  EXPECT_CU(cuLogsDumpToMemory(&again, tiny, &size, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(size, 0U);
  EXPECT_EQ(again, at);  // nothing was read
}

TEST_F(LogsTest, IntoAFile) {
  const std::string path = temporary_path("log");
  CUlogIterator at = current();
  fail(2);
  EXPECT_OK(cuLogsDumpToFile(&at, path.c_str(), 0));
  EXPECT_EQ(lines_of(read_file(path)).size(), 2U);
  EXPECT_EQ(at, current());
  EXPECT_OK(cuLogsDumpToFile(nullptr, path.c_str(), 0));
  EXPECT_EQ(read_file(path), dump(nullptr));
  at = current();
  EXPECT_CU(cuLogsDumpToFile(&at, "/no/such/folder/log", 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(at, current());
  ::unlink(path.c_str());
}

TEST_F(LogsTest, Refusals) {
  CUlogIterator at = 0;
  char buffer[512];
  size_t size = sizeof(buffer);
  EXPECT_CU(cuLogsCurrent(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsCurrent(&at, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsDumpToMemory(nullptr, nullptr, &size, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsDumpToMemory(nullptr, buffer, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsDumpToMemory(nullptr, buffer, &size, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsDumpToFile(nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsDumpToFile(nullptr, temporary_path("log").c_str(), 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsRegisterCallback(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsUnregisterCallback(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLogsUnregisterCallback(garbage_handle<CUlogsCallbackHandle>()),
            CUDA_ERROR_INVALID_VALUE);
  at = current() + 1000;
  EXPECT_CU(cuLogsDumpToMemory(&at, buffer, &size, 0), CUDA_ERROR_INVALID_VALUE);
}

struct Told {
  std::vector<std::string> messages;
  CUlogsCallbackHandle handle = nullptr;
  bool fails = false, leaves = false;
};

void CUDA_CB tell(void* data, CUlogLevel level, char* message, size_t length) {
  auto& told = *static_cast<Told*>(data);
  EXPECT_EQ(level, CU_LOG_LEVEL_ERROR);
  EXPECT_EQ(std::strlen(message), length);
  EXPECT_EQ(std::strchr(message, '\n'), nullptr);
  told.messages.emplace_back(message);
  message[0] = '?';  // it is the callback's
  if (told.fails) fail(1);
  if (told.leaves) EXPECT_OK(cuLogsUnregisterCallback(told.handle));
}

TEST_F(LogsTest, Callbacks) {
  Told first, second;
  second.fails = true;
  EXPECT_OK(cuLogsRegisterCallback(tell, &first, &first.handle));
  EXPECT_OK(cuLogsRegisterCallback(tell, &second, &second.handle));
  CUlogIterator at = current();
  fail(1);
  EXPECT_THAT(first.messages, ElementsAre(HasSubstr("cuDeviceGetCount")));
  EXPECT_EQ(second.messages, first.messages);
  EXPECT_EQ(lines_of(dump(&at)).size(), 2U);  // the callback's own failure too, which told nobody
  EXPECT_OK(cuLogsUnregisterCallback(second.handle));
  EXPECT_CU(cuLogsUnregisterCallback(second.handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(first.messages.size(), 2U);
  EXPECT_EQ(second.messages.size(), 1U);
  first.leaves = true;
  fail(2);
  EXPECT_EQ(first.messages.size(), 3U);
  Told last;
  EXPECT_OK(cuLogsRegisterCallback(tell, &last, &last.handle));
  std::thread([] { fail(1); }).join();
  EXPECT_EQ(last.messages.size(), 1U);
  EXPECT_OK(cuLogsUnregisterCallback(last.handle));
}

// Several threads fail while callbacks come and go: each is told while it is registered only.
TEST_F(LogsTest, CallbacksAmongThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        auto count = std::make_unique<std::atomic<int>>(0);
        CUlogsCallbackHandle handle = nullptr;
        const CUlogsCallback add = [](void* data, CUlogLevel, char*, size_t) {
          ++*static_cast<std::atomic<int>*>(data);
        };
        EXPECT_OK(cuLogsRegisterCallback(add, count.get(), &handle));
        fail(1);
        EXPECT_OK(cuLogsUnregisterCallback(handle));
        EXPECT_GE(count->load(), 1);
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

// Before cuInit, and in a child of a fork.
TEST(LogsFreshTest, DISABLED_BeforeInitialisation) {
  CUlogIterator at = current();
  CUdevice device = 0;
  EXPECT_CU(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_THAT(dump(&at), HasSubstr("CUDA_ERROR_NOT_INITIALIZED"));
}
TEST_F(LogsTest, BeforeInitialisation) {
  EXPECT_EQ(run_in_fresh_process("LogsFreshTest.DISABLED_BeforeInitialisation"), 0);
}

TEST(LogsFreshTest, DISABLED_File) {
  ASSERT_OK(cuInit(0));
  fail(2);
  const auto lines = lines_of(read_file(std::getenv("CUDA_LOG_FILE")));
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.find("from cuDeviceGetCount") != std::string::npos;
                          }),
            2);
}
TEST_F(LogsTest, File) {
  const std::string path = temporary_path("log-file");
  ::setenv("CUDA_LOG_FILE", path.c_str(), 1);
  EXPECT_EQ(run_in_fresh_process("LogsFreshTest.DISABLED_File"), 0);
  ::unsetenv("CUDA_LOG_FILE");
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace vgpu::conformance
