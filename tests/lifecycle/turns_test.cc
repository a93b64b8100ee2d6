// Guests of one device that all want it: real workers, who get what their weights say, and go on
// when one of them or vgpud dies. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "api/stream_memory.h"
#include "module_layout_generated.h"
#include "server/os_weight.h"
#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kModule = SlotId::make(4, 1, 0);
constexpr uint64_t kUpload = SlotId::make(8, 1, 0);
constexpr uint32_t kLoops = 15'000;  // with all blocks some hundred microseconds of the device
constexpr uint32_t kBlocks = 16;     // so many that all SMs have some
// Kernels that a guest gives before it waits for all of them: nearly always it wants more. (Who
// waits for every few kernels is not always there to ask, on a machine that is busy with other
// things.)
constexpr int kBatch = 128;

// spin(p, n): n rounds of arithmetic, then writes to *p.
constexpr char kPtx[] = R"(
.version 7.5
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 p, .param .u64 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.param.u64 %rd2, [n];
  mov.u32 %r1, 1;
again:
  mad.lo.s32 %r1, %r1, 1664525, 1013904223;
  sub.u64 %rd2, %rd2, 1;
  setp.ne.u64 %p1, %rd2, 0;
  @%p1 bra again;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

// A guest with a context, memory and the kernel.
class Worker {
 public:
  Worker(const protocol::Address& server, const std::string& profile) {
    protocol::Hello hello = test_hello(16 * kMiB);
    hello.profile = profile;
    attachment_ = protocol::attach(server, hello, 20'000);
    if (!attachment_.status.ok()) return;
    guest_ = std::make_unique<Guest>(attachment_.channel.get());
    guest_->enter_context();
    memory_ = guest_->allocate(attachment_.reply, 4 * kMiB);
    wire::ImageChunkArgs chunk;
    chunk.upload = kUpload;
    chunk.total = chunk.bytes = sizeof(kPtx);
    guest_->post(Op::kImageChunk, chunk, std::string(kPtx, sizeof(kPtx)));
    wire::ModuleLoadArgs load;
    load.module = kModule;
    load.upload = kUpload;
    load.slab_bytes = 64 * 1024;
    load.optimization_level = -1;
    loaded_ = guest_->call(Op::kModuleLoad, load) == 0;
    launch(1);
    loaded_ = guest_->synchronize() == 0 && loaded_;
  }
  bool ok() const { return loaded_ && memory_ != 0; }

  void launch(uint64_t loops = kLoops, uint64_t stream = 1, uint64_t offset = 0) {
    wire::LaunchArgs args;
    args.module = kModule;
    args.stream = stream;
    for (int i = 0; i < 3; ++i) args.grid[i] = args.block[i] = 1;
    args.grid[0] = kBlocks;
    const uint64_t parameters[] = {memory_ + offset, loops};
    args.param_bytes = sizeof(parameters);
    guest_->post(Op::kLaunch, args,
                 std::string(reinterpret_cast<const char*>(parameters), sizeof(parameters)));
  }
  // `stream` waits until the first word of memory is what spin(p, 1) writes.
  void wait_for_spin(uint64_t stream) {
    guest_->write_inline(memory_, std::string(4, '\0'));
    EXPECT_EQ(guest_->synchronize(), 0);
    wire::StreamMemoryArgs wait;
    wait.stream = stream;
    wait.address = memory_;
    wait.value = 1664525u + 1013904223u;
    wait.operation = static_cast<uint32_t>(MemoryOperation::kWait32);
    wait.condition = CU_STREAM_WAIT_VALUE_EQ;
    guest_->post(Op::kStreamMemory, wait);
  }
  // Kernels until told to stop.
  void work(const std::atomic<bool>& stop) {
    while (!stop.load()) {
      for (int i = 0; i < kBatch; ++i) launch();
      if (guest_->synchronize() != 0) return;
      done_.fetch_add(kBatch);
    }
  }
  uint64_t done() const { return done_.load(); }
  uint64_t session() const { return attachment_.reply.session; }
  Guest& guest() { return *guest_; }
  // Closes the connection: the guest is gone.
  void leave() {
    guest_.reset();
    attachment_.channel.reset();
  }

 private:
  protocol::Attachment attachment_;
  std::unique_ptr<Guest> guest_;
  uint64_t memory_ = 0;
  bool loaded_ = false;
  std::atomic<uint64_t> done_{0};
};

// How long others may keep the machine from us.
bool in_the_end(const std::function<bool()>& done) {
  for (const double began = now_ms(); now_ms() - began < 120'000;) {
    if (done()) return true;
    (void)poll(nullptr, 0, 5);
  }
  return false;
}

class TurnsOfWorkers : public ::testing::Test {
 protected:
  TurnsOfWorkers() {
    char name[] = "/tmp/vgpu-turns-XXXXXX";
    folder_ = mkdtemp(name);
    std::ofstream(folder_ + "/vgpud.toml") << R"(
[profile.default]
[profile.weighty]
weight = 900
[profile.urgent]
priority = "latency"
[profile.spot]
priority = "spot"
[profile.least]
cap = 1
[profile.fifth]
cap = 20
[profile.brief]
launch_seconds = 1
[profile.together]
mode = "packed"
[profile.together_weighty]
mode = "packed"
weight = 900
)";
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--config", folder_ + "/vgpud.toml", "--scheduler", "fair"},
        SOFTGPU);
  }
  ~TurnsOfWorkers() override { std::filesystem::remove_all(folder_); }
  void SetUp() override { server_->start(); }
  void TearDown() override { stop(); }
  Worker* add(const std::string& profile) {
    workers_.push_back(std::make_unique<Worker>(server_->address(), profile));
    EXPECT_TRUE(workers_.back()->ok());
    return workers_.back()->ok() ? workers_.back().get() : nullptr;
  }
  void go(Worker* worker) {
    threads_.emplace_back([this, worker] { worker->work(stop_); });
  }
  void stop() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    stop_.store(false);
  }
  // What the server knows of a guest.
  protocol::GuestState state(const Worker& worker) const {
    const auto answer = server_->ask(protocol::GuestsRequest{worker.session() - 1});
    const auto* page = answer ? std::get_if<protocol::GuestsReply>(&*answer) : nullptr;
    if (page == nullptr || page->guests.empty()) return {};
    return page->guests.front();
  }
  uint64_t device_ns(const Worker& worker) const { return state(worker).device_ns[0]; }
  // Device time of one in proportion to the other's, while both work: for half a second of it.
  double ratio(const Worker& one, const Worker& two) {
    constexpr uint64_t kLong = 500'000'000;
    const uint64_t before[] = {device_ns(one), device_ns(two)};
    uint64_t had[2] = {};
    EXPECT_TRUE(in_the_end([&] {
      had[0] = device_ns(one) - before[0];
      had[1] = device_ns(two) - before[1];
      return had[0] + had[1] > kLong;
    }));
    return static_cast<double>(had[0]) / static_cast<double>(std::max<uint64_t>(had[1], 1));
  }
  bool set_weight(const Worker& worker, uint32_t weight) const {
    protocol::SteerRequest request;
    request.action = protocol::SteerAction::kLimit;
    request.session = worker.session();
    request.weight = weight;
    const auto answer = server_->ask(request);
    return answer && std::holds_alternative<protocol::SteerReply>(*answer);
  }

  // Of the workers whose niceness is not the usual one; 99: threads of one do not agree.
  std::multiset<int> niceness() const {
    std::multiset<int> all;
    const std::string self = std::to_string(server_->pid());
    std::ifstream children("/proc/" + self + "/task/" + self + "/children");
    for (std::string worker; children >> worker;) {
      std::set<int> here;
      const std::string tasks = "/proc/" + worker + "/task";
      for (const auto& task : std::filesystem::directory_iterator(tasks))
        here.insert(getpriority(PRIO_PROCESS,
                                static_cast<id_t>(std::stoi(task.path().filename().string()))));
      all.insert(here.size() == 1 ? *here.begin() : 99);
    }
    all.erase(getpriority(PRIO_PROCESS, 0));  // they wait for guests
    return all;
  }

  std::string folder_;
  std::unique_ptr<ServerProcess> server_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
};

// Of 9; a guest that the machine does not let run asks for nothing.
constexpr double kClearlyMore = 1.5;

TEST_F(TurnsOfWorkers, DeviceTimeFollowsWeightsOfProfiles) {
  Worker* one = add("weighty");
  Worker* two = add("default");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(state(*one).weight, 900u);
  go(one);
  go(two);
  EXPECT_GT(ratio(*one, *two), kClearlyMore);
  EXPECT_GT(state(*two).wait_ns, 0u);
}

// In one process, so that turns alone can tell them apart.
TEST_F(TurnsOfWorkers, DeviceTimeFollowsWeightsOfPackedGuests) {
  Worker* one = add("together_weighty");
  Worker* two = add("together");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(state(*one).mode, 2);
  go(one);
  go(two);
  EXPECT_GT(ratio(*one, *two), kClearlyMore);
  EXPECT_GT(state(*two).wait_ns, 0u);
}

// The threads of each worker are as nice as its share says, now and after a change.
TEST_F(TurnsOfWorkers, ProcessorsFollowShares) {
  if (!server::may_set_nice()) GTEST_SKIP() << "needs CAP_SYS_NICE";
  Worker* urgent = add("urgent");
  Worker* spot = add("spot");
  Worker* weighty = add("weighty");
  ASSERT_TRUE(urgent != nullptr && spot != nullptr && weighty != nullptr);
  const int usual = getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(niceness(), (std::multiset<int>{usual - 10, usual - 10, usual + 10}));
  ASSERT_TRUE(set_weight(*weighty, 10));
  ASSERT_TRUE(set_weight(*urgent, 50));
  EXPECT_EQ(niceness(), (std::multiset<int>{usual - 7, usual + 10, usual + 10}));
}

// An operator's change reaches guests that run.
TEST_F(TurnsOfWorkers, AChangedWeightCounts) {
  Worker* one = add("default");
  Worker* two = add("default");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  go(one);
  go(two);
  (void)ratio(*one, *two);
  ASSERT_TRUE(set_weight(*two, 900));
  EXPECT_GT(1 / ratio(*one, *two), kClearlyMore);
  ASSERT_TRUE(set_weight(*one, 9'000));
  EXPECT_GT(ratio(*one, *two), kClearlyMore);
}

// Whatever the classes are, nobody starves. (How much who gets is for the simulation to say: a
// guest that the machine does not let run asks for nothing.)
TEST_F(TurnsOfWorkers, TheLowestClassKeepsItsMinimum) {
  Worker* one = add("urgent");
  Worker* two = add("spot");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  go(one);
  go(two);
  EXPECT_TRUE(in_the_end([&] { return one->done() > 100 && two->done() > 16; }));
}

// What a guest asks about work that waits for its turn is answered; its end ends the wait.
TEST_F(TurnsOfWorkers, WhoWaitsIsAnsweredAndMayGo) {
  Worker* one = add("least");  // a hundredth of the device
  ASSERT_NE(one, nullptr);
  for (int i = 0; i < 200; ++i) one->launch(4 * kLoops);
  wire::StreamQueryArgs query;
  query.stream = 1;
  EXPECT_EQ(one->guest().call(Op::kStreamQuery, query), CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(in_the_end([&] { return state(*one).device_ns[0] > 0; }));
  one->leave();
  EXPECT_TRUE(in_the_end([&] {
    const auto info = server_->info();
    return info && info->guests.empty();
  }));
}

// A cap is kept in device time, and the server says for how long it kept the guest back.
TEST_F(TurnsOfWorkers, ACapHolds) {
  Worker* one = add("fifth");
  ASSERT_NE(one, nullptr);
  go(one);
  const uint64_t before = device_ns(*one);
  const double began = now_ms();
  EXPECT_TRUE(in_the_end(
      [&] { return now_ms() - began > 1'000 && state(*one).throttled_ns > 10'000'000; }));
  const auto used_ms = static_cast<double>(device_ns(*one) - before) / 1e6;
  EXPECT_LT(used_ms, 0.2 * (now_ms() - began) + 100) << "and a burst, and a turn";
}

// A program that is killed or stopped in the middle of its turn, over and over; the other's work
// goes on.
TEST_F(TurnsOfWorkers, TheTurnsOfTheKilledAndStoppedGoToTheOthers) {
  Worker* stays = add("default");
  ASSERT_NE(stays, nullptr);
  for (int i = 0; i < 6; ++i) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      Worker mine(server_->address(), "weighty");
      if (!mine.ok() || write(ends[1], "x", 1) != 1) _exit(1);
      const std::atomic<bool> never{false};
      mine.work(never);
      _exit(2);
    }
    char byte = 0;
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    std::atomic<bool> stop_now{false};
    std::thread works([&] { stays->work(stop_now); });
    (void)poll(nullptr, 0, 30 + 7 * i);
    kill(pid, i % 2 == 0 ? SIGKILL : SIGSTOP);
    const uint64_t before = stays->done();
    EXPECT_TRUE(in_the_end([&] { return stays->done() > before + 100; }));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    stop_now.store(true);
    works.join();
  }
}

// Both go on without vgpud, and the next one takes their shares over.
TEST_F(TurnsOfWorkers, TheyGoOnWithoutVgpudAndComeBackToIt) {
  Worker* one = add("default");
  Worker* two = add("default");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  go(one);
  go(two);
  (void)ratio(*one, *two);
  ASSERT_TRUE(set_weight(*one, 900));
  server_->kill_hard();
  const uint64_t before[] = {one->done(), two->done()};
  EXPECT_TRUE(
      in_the_end([&] { return one->done() > before[0] + 200 && two->done() > before[1] + 100; }));
  server_->start();
  EXPECT_TRUE(in_the_end([&] {
    const auto info = server_->info();
    return info && info->guests.size() == 2;
  }));
  EXPECT_EQ(state(*one).weight, 900u);
  EXPECT_GT(ratio(*one, *two), kClearlyMore);
}

// vgpud stands still: who waits goes on, and takes turns again when it moves.
TEST_F(TurnsOfWorkers, TheyGoOnWhileVgpudIsStopped) {
  Worker* one = add("default");
  Worker* two = add("default");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  go(one);
  go(two);
  (void)ratio(*one, *two);
  kill(server_->pid(), SIGSTOP);
  const uint64_t before[] = {one->done(), two->done()};
  EXPECT_TRUE(
      in_the_end([&] { return one->done() > before[0] + 200 && two->done() > before[1] + 200; }));
  kill(server_->pid(), SIGCONT);
  ASSERT_TRUE(set_weight(*one, 900));
  EXPECT_GT(ratio(*one, *two), kClearlyMore);
}

// A kernel that runs for longer than its profile allows ends with its context; others go on.
TEST_F(TurnsOfWorkers, AKernelThatRunsForTooLongEnds) {
  Worker* endless = add("brief");
  Worker* other = add("default");
  ASSERT_TRUE(endless != nullptr && other != nullptr);
  go(other);
  endless->launch(UINT64_MAX);
  EXPECT_EQ(endless->guest().synchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
  wire::StreamQueryArgs query;
  query.stream = 1;
  EXPECT_EQ(endless->guest().call(Op::kStreamQuery, query), CUDA_ERROR_LAUNCH_TIMEOUT);
  const uint64_t before = other->done();
  EXPECT_TRUE(in_the_end([&] { return other->done() > before + 100; }));
  const auto info = server_->info();
  EXPECT_TRUE(info && info->guests.size() == 2) << "no session has ended";
}

// Work of one stream waits for what work of another writes, which comes later. However much of the
// first is with the driver, the other comes through.
TEST_F(TurnsOfWorkers, WorkThatWaitsForLaterWorkIsNotStuck) {
  Worker* one = add("default");
  ASSERT_NE(one, nullptr);
  for (const uint64_t i : {0, 1}) {
    wire::StreamCreateArgs create;
    create.stream = stream_id(i);
    create.flags = CU_STREAM_NON_BLOCKING;
    one->guest().post(Op::kStreamCreate, create);
  }
  // So long that a few of them are all that is let through to the driver.
  for (int i = 0; i < 4; ++i) one->launch(16 * kLoops);
  one->wait_for_spin(stream_id(0));
  for (int i = 0; i < 64; ++i) one->launch(1, stream_id(0), 4096);
  one->launch(1, stream_id(1));
  EXPECT_EQ(one->guest().synchronize(), 0);
}

}  // namespace
}  // namespace vgpu::testing
