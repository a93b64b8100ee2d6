// Guests and servers that come, die and come again.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include "protocol/transport/control_socket.h"
#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Watches the connection as the shim does.
class Watcher {
 public:
  explicit Watcher(protocol::GuestChannel* channel)
      : thread_([this, channel] {
          while (!stop_) {
            pollfd watched{channel->transport().liveness_fd(), POLLRDHUP, 0};
            if (poll(&watched, 1, 20) > 0) return channel->mark_dead();
          }
        }) {}
  ~Watcher() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Lifecycle : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.start();
    ASSERT_TRUE(server_.info().has_value());
  }
  protocol::Attachment attach(uint64_t bytes = 64 * kMiB) {
    return protocol::attach(server_.address(), test_hello(bytes), 20'000);
  }
  size_t guests() {
    auto info = server_.info();
    return info ? info->guests.size() : 999;
  }
  // A guest in a child that has memory mapped and then runs `body`; ready when it returns.
  template <typename F>
  pid_t guest_process(F body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      protocol::Attachment attachment = attach();
      if (!attachment.status.ok()) _exit(1);
      Guest guest(attachment.channel.get());
      guest.enter_context();
      if (guest.map(attachment.reply.device_range.base, 4 * kMiB) != 0) _exit(2);
      if (guest.synchronize() != 0) _exit(3);
      body();
      if (write(ends[1], "x", 1) != 1) _exit(4);
      for (;;) pause();
    }
    char byte = 0;
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &byte, 1), 1) << "the guest did not start";
    close(ends[0]);
    return pid;
  }
  ServerProcess server_;
};

TEST_F(Lifecycle, AGuestWorksAndItsMemoryComesBack) {
  {
    protocol::Attachment attachment = attach();
    ASSERT_TRUE(attachment.status.ok()) << attachment.status.to_string();
    EXPECT_EQ(attachment.reply.memory_bytes, 64 * kMiB);
    EXPECT_EQ(attachment.reply.driver, "soft");
    ASSERT_EQ(attachment.reply.allocator, protocol::AllocatorMode::kReserved);
    const protocol::DeviceSnapshot& device = attachment.reply.devices.at(0);
    EXPECT_EQ(device.name, "Memory test device");
    EXPECT_EQ(device.attributes.at(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
    EXPECT_EQ(device.attributes.at(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
              0)
        << "it says so, but lacks the calls";
    Guest guest(attachment.channel.get());
    guest.enter_context();
    const uint64_t base = attachment.reply.device_range.base;
    ASSERT_EQ(guest.map(base, 4 * kMiB), 0);
    guest.write_inline(base + 10, "over shm");
    EXPECT_EQ(guest.read(base + 10, 8), "over shm");
    EXPECT_EQ(guests(), 1u);
    EXPECT_EQ(server_.info()->guests[0].used_bytes, 64 * kMiB);
  }
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 0u);
}

TEST_F(Lifecycle, TwoGuestsAtOnceKeepTheirOwnMemory) {
  protocol::Attachment a = attach(), b = attach();
  ASSERT_TRUE(a.status.ok() && b.status.ok());
  Guest first(a.channel.get()), second(b.channel.get());
  const uint64_t base = a.reply.device_range.base;
  ASSERT_EQ(base, b.reply.device_range.base) << "every guest can have the same addresses";
  for (Guest* guest : {&first, &second}) {
    guest->enter_context();
    ASSERT_EQ(guest->map(base, 2 * kMiB), 0);
  }
  first.write_inline(base, "first");
  second.write_inline(base, "other");
  EXPECT_EQ(first.read(base, 5), "first");
  EXPECT_EQ(second.read(base, 5), "other");
}

TEST_F(Lifecycle, MoreMemoryThanThereIsIsRefusedWithWhatIsFree) {
  protocol::Attachment first = attach(900 * kMiB);
  ASSERT_TRUE(first.status.ok());
  protocol::Attachment second = attach(200 * kMiB);
  ASSERT_FALSE(second.status.ok());
  EXPECT_EQ(second.cuda_error, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(second.status.text().find("124 MiB of 1 GiB are free"), std::string::npos)
      << second.status.text();
}

TEST_F(Lifecycle, AMismatchNamesBothSides) {
  protocol::Hello hello = test_hello();
  hello.wire_hash ^= 1;
  protocol::Attachment refused = protocol::attach(server_.address(), hello, 20'000);
  EXPECT_EQ(refused.cuda_error, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  EXPECT_NE(refused.status.text().find("guest test has"), std::string::npos);
  EXPECT_NE(refused.status.text().find("server "), std::string::npos) << refused.status.text();
}

TEST_F(Lifecycle, AKilledGuestGivesItsMemoryBackWithinASecond) {
  const pid_t guest = guest_process([] {});
  ASSERT_EQ(guests(), 1u);
  kill(guest, SIGKILL);
  const double start = now_ms();
  ASSERT_TRUE(eventually([&] { return server_.info()->devices[0].granted_bytes == 0; }));
  const double took = now_ms() - start;
  RecordProperty("reclaim_ms", std::to_string(took));
  std::printf("memory was back after %.1f ms\n", took);
  EXPECT_LT(took, 1000) << "the aim is 50 ms on a machine that is not overloaded";
  waitpid(guest, nullptr, 0);
}

TEST_F(Lifecycle, AForkedChildDoesNotKeepADeadGuestAlive) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t guest = guest_process([&] {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    if (write(ends[1], &child, sizeof(child)) != sizeof(child)) _exit(9);
  });
  pid_t child = 0;
  ASSERT_EQ(read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  kill(guest, SIGKILL);
  const double start = now_ms();
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
  std::printf("memory was back after %.1f ms\n", now_ms() - start);
  EXPECT_EQ(kill(child, 0), 0) << "the child still holds the descriptors";
  kill(child, SIGKILL);
  waitpid(guest, nullptr, 0);
}

TEST_F(Lifecycle, AKilledWorkerGivesErrorsNotAHang) {
  protocol::Attachment attachment = attach();
  ASSERT_TRUE(attachment.status.ok());
  Watcher watcher(attachment.channel.get());
  Guest guest(attachment.channel.get());
  guest.enter_context();
  ASSERT_EQ(guest.synchronize(), 0);
  const double start = now_ms();
  kill(attachment.reply.server_pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return guest.synchronize() == -1; }));
  EXPECT_LT(now_ms() - start, 2000);
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
  EXPECT_TRUE(attach().status.ok()) << "the next guest is served";
}

TEST_F(Lifecycle, ARestartedServerAdoptsTheGuests) {
  protocol::Attachment attachment = attach();
  ASSERT_TRUE(attachment.status.ok());
  Guest guest(attachment.channel.get());
  guest.enter_context();
  const uint64_t base = attachment.reply.device_range.base;
  ASSERT_EQ(guest.map(base, 2 * kMiB), 0);
  guest.write_inline(base, "kept");
  server_.kill_hard();
  EXPECT_EQ(guest.read(base, 4), "kept") << "goes on without a server";
  server_.start();  // over the socket that the dead one has left
  ASSERT_TRUE(eventually([&] { return guests() == 1; }));
  const protocol::GuestInfo listed = server_.info()->guests[0];
  EXPECT_EQ(listed.session, attachment.reply.session);
  EXPECT_EQ(listed.granted_bytes, 64 * kMiB);
  EXPECT_EQ(listed.executable, "test-guest");
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 64 * kMiB);
  EXPECT_EQ(guest.read(base, 4), "kept");
  attachment.channel.reset();
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 0u);
}

TEST_F(Lifecycle, AStopWithoutForceLeavesTheGuests) {
  protocol::Attachment attachment = attach();
  ASSERT_TRUE(attachment.status.ok());
  Guest guest(attachment.channel.get());
  guest.enter_context();
  EXPECT_EQ(server_.stop(false), 0);
  EXPECT_EQ(guest.synchronize(), 0);
  EXPECT_NE(access(server_.path().c_str(), F_OK), 0) << "its socket is gone";
  server_.start();
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
}

TEST_F(Lifecycle, AMalformedRecordEndsThatGuestAlone) {
  protocol::Attachment bad = attach(), good = attach();
  ASSERT_TRUE(bad.status.ok() && good.status.ok());
  Guest hostile(bad.channel.get()), other(good.channel.get());
  other.enter_context();
  wire::StreamDestroyArgs args;
  args.stream = 0xdeadbeef;
  hostile.post(Op::kStreamDestroy, args);
  EXPECT_TRUE(eventually([&] { return !bad.channel->usable(); }));
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
  EXPECT_EQ(other.synchronize(), 0);
}

TEST_F(Lifecycle, GuestsKilledAtAnyMomentDisturbNobody) {
  protocol::Attachment attachment = attach();
  ASSERT_TRUE(attachment.status.ok());
  Guest steady(attachment.channel.get());
  steady.enter_context();
  const uint64_t base = attachment.reply.device_range.base;
  ASSERT_EQ(steady.map(base, 2 * kMiB), 0);
  void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* rounds = new (shared) std::atomic<uint64_t>(0);  // that victims have gone through whole
  constexpr int kVictims = 24;
  for (int i = 0; i < kVictims; ++i) {
    const pid_t victim = fork();
    if (victim == 0) {
      // Attaches, maps, writes and waits over and over, until it dies somewhere in between.
      while (true) {
        protocol::Attachment own = attach(16 * kMiB);
        if (!own.status.ok()) continue;
        Guest guest(own.channel.get());
        guest.enter_context();
        guest.map(own.reply.device_range.base, 2 * kMiB);
        guest.write_inline(own.reply.device_range.base, "victim");
        if (guest.synchronize() == 0) ++*rounds;
      }
    }
    poll(nullptr, 0, i * 2);
    if (i == kVictims - 1) {  // on a busy machine no other may have come so far
      EXPECT_TRUE(eventually([&] { return rounds->load() > 0; }));
    }
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    const std::string text = "steady " + std::to_string(i);
    steady.write_inline(base, text);
    ASSERT_EQ(steady.read(base, text.size()), text);
  }
  munmap(shared, 4096);
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 64 * kMiB);
}

TEST_F(Lifecycle, GarbageAndSilenceOnTheSocketHurtNobody) {
  auto silent = protocol::connect_unix(server_.path());
  auto noisy = protocol::connect_unix(server_.path());
  ASSERT_TRUE(silent.ok() && noisy.ok());
  const std::vector<uint8_t> garbage(3000, 0x77);
  ASSERT_TRUE(protocol::send_frame(noisy->get(), garbage).ok());
  auto answer = protocol::receive_message(noisy->get(), 10'000);
  ASSERT_TRUE(answer.ok());
  EXPECT_NE(std::get_if<protocol::Refusal>(&answer->message), nullptr);
  EXPECT_TRUE(attach().status.ok());
}

// The longest silent makes room, not the one whose descriptor happens to be the smallest.
TEST_F(Lifecycle, AFloodOfSilentConnectionsEndsTheOldest) {
  constexpr size_t kUnheard = 256;  // server::kUnheardMax
  auto first = protocol::connect_unix(server_.path());
  auto oldest = protocol::connect_unix(server_.path());
  ASSERT_TRUE(first.ok() && oldest.ok());
  const double start = now_ms();
  ASSERT_TRUE(eventually([&] { return server_.info() && now_ms() > start + 5; }));
  first->reset();
  ASSERT_TRUE(server_.info()) << "by now the server has seen it end";
  auto late = protocol::connect_unix(server_.path());  // takes the descriptor that `first` had
  ASSERT_TRUE(late.ok());
  std::vector<UniqueFd> flood;
  for (size_t i = 0; i < kUnheard - 1; ++i) {
    if (i % 32 == 0) {
      ASSERT_TRUE(server_.info()) << "all so far are accepted";
    }
    auto each = protocol::connect_unix(server_.path());
    ASSERT_TRUE(each.ok());
    flood.push_back(std::move(*each));
  }
  pollfd ended{oldest->get(), POLLRDHUP, 0};
  EXPECT_EQ(poll(&ended, 1, 2000), 1) << "the oldest goes";
  ASSERT_TRUE(protocol::send_message(late->get(), protocol::InfoRequest{}).ok());
  EXPECT_TRUE(protocol::receive_message(late->get(), 10'000).ok());
}

TEST_F(Lifecycle, ASecondServerAtTheSameAddressIsRefused) {
  const Finished second =
      run_program({VGPUD, "--listen", "unix:" + server_.path(), "--driver", "soft"},
                  {"VGPU_SOFT_DRIVER=" MEMORY_DRIVER});
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.output.find(server_.path()), std::string::npos) << second.output;
  EXPECT_TRUE(server_.info().has_value());
}

TEST_F(Lifecycle, AttachingIsQuickAndHundredGuestsInARowAreServed) {
  double best = 1e9;
  for (int i = 0; i < 100; ++i) {
    // A worker that waits, as the aim is about that.
    const double start = now_ms();
    protocol::Attachment attachment = attach(16 * kMiB);
    ASSERT_TRUE(attachment.status.ok()) << i << ": " << attachment.status.to_string();
    best = std::min(best, now_ms() - start);
  }
  std::printf("attach to a waiting worker: %.2f ms at best\n", best);
  RecordProperty("attach_ms", std::to_string(best));
  EXPECT_LT(best, 1000) << "on a machine that is not overloaded it is a few";
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
}

}  // namespace
}  // namespace vgpu::testing
