// A hand-written guest on the software GPU: code, launches, faults and kills in real worker
// processes. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/wire/graph_nodes.h"
#include "tests/lifecycle/server_process.h"
#include "tests/lifecycle/softgpu_code.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Once on the device as it is, and once on each kind of awkward hardware that it can play.
class SoftGpu : public ::testing::TestWithParam<const char*>, protected SoftGpuCode {
 protected:
  void SetUp() override {
    if (*GetParam() != '\0') setenv("VGPU_SOFTGPU_CONTRARY", GetParam(), 1);
    server_.start();
    attachment_ = attach();
    ASSERT_TRUE(attachment_.status.ok()) << attachment_.status.to_string();
    guest_ = std::make_unique<Guest>(attachment_.channel.get());
    base_ = prepare(guest_.get(), attachment_.reply);
    ASSERT_NE(base_, 0u);
  }
  void TearDown() override { unsetenv("VGPU_SOFTGPU_CONTRARY"); }
  protocol::Attachment attach() {
    return protocol::attach(server_.address(), test_hello(64 * kMiB), 20'000);
  }
  ServerProcess server_{{}, SOFTGPU};
  protocol::Attachment attachment_;
  std::unique_ptr<Guest> guest_;
  uint64_t base_ = 0;
};

// A guest unloads code that a graph of its own runs, and loads other code under the same name: the
// driver's graph still has the old function.
TEST_P(SoftGpu, AGraphDoesNotRunWhatHasItsNameLater) {
  wire::LaunchArgs kernel;
  kernel.module = kModule;
  kernel.index = index_.at("double_all");
  for (int i = 0; i < 3; ++i) kernel.grid[i] = kernel.block[i] = 1;
  kernel.param_bytes = sizeof(base_);
  std::vector<std::byte> command(sizeof(kernel) + sizeof(base_)), nodes;
  std::memcpy(command.data(), &kernel, sizeof(kernel));
  std::memcpy(command.data() + sizeof(kernel), &base_, sizeof(base_));
  protocol::GraphNodeHeader header;
  header.op = static_cast<uint16_t>(Op::kLaunch);
  protocol::append_graph_node(&nodes, header, {}, command);
  wire::ImageChunkArgs chunk;
  chunk.upload = kUpload;
  chunk.total = chunk.bytes = nodes.size();
  guest_->post(Op::kImageChunk, chunk,
               std::string(reinterpret_cast<const char*>(nodes.data()), nodes.size()));
  wire::GraphInstantiateArgs make;
  make.graph = SlotId::make(0x22, 1, 0);
  make.upload = kUpload;
  make.nodes = 1;
  ASSERT_EQ(guest_->call(Op::kGraphInstantiate, make), 0);
  guest_->write_inline(base_, std::string("\1\0\0\0", 4));
  wire::GraphLaunchArgs run;
  run.graph = make.graph;
  run.stream = 1;
  guest_->post(Op::kGraphLaunch, run);
  ASSERT_EQ(guest_->synchronize(), 0);
  EXPECT_EQ(guest_->read(base_, 4), std::string("\2\0\0\0", 4));
  wire::ModuleUnloadArgs unload;
  unload.module = kModule;
  guest_->post(Op::kModuleUnload, unload);
  load_module(guest_.get());
  guest_->post(Op::kGraphLaunch, run);
  ASSERT_EQ(guest_->synchronize(), 0);
  EXPECT_EQ(guest_->channel().semaphores().sticky(0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(guest_->read(base_, 4), std::string("\2\0\0\0", 4)) << "it has not run again";
}

TEST_P(SoftGpu, AKernelRunsInTheWorker) {
  std::vector<uint32_t> values(512);
  for (uint32_t i = 0; i < 512; ++i) values[i] = i;
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 2048);
  guest_->write_inline(base_ + 4096, bytes);
  launch(guest_.get(), "double_all", base_ + 4096, 4, 128);
  const std::string result = guest_->read(base_ + 4096, 2048);
  ASSERT_EQ(result.size(), 2048u);
  for (uint32_t i = 0; i < 512; ++i) {
    uint32_t value = 0;
    std::memcpy(&value, result.data() + 4 * i, 4);
    ASSERT_EQ(value, 2 * i);
  }
}

TEST_P(SoftGpu, AWildStoreIsStickyInThatGuestAlone) {
  protocol::Attachment other_attachment = attach();
  ASSERT_TRUE(other_attachment.status.ok());
  Guest other(other_attachment.channel.get());
  const uint64_t other_memory = prepare(&other, other_attachment.reply);
  ASSERT_NE(other_memory, 0u);
  launch(guest_.get(), "wild", 0x1000);
  EXPECT_EQ(guest_->synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(eventually(
      [&] { return guest_->channel().semaphores().sticky(0) == CUDA_ERROR_ILLEGAL_ADDRESS; }));
  EXPECT_TRUE(guest_->channel().usable());
  launch(&other, "double_all", other_memory, 1, 32);
  EXPECT_EQ(other.synchronize(), 0);
  EXPECT_EQ(other.channel().semaphores().sticky(0), 0);
}

// The spinning kernel of a killed guest must not hold its memory, nor anybody else's turn.
TEST_P(SoftGpu, AGuestThatIsKilledInAKernelGivesEverythingBack) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    protocol::Attachment mine = attach();
    if (!mine.status.ok()) _exit(1);
    Guest guest(mine.channel.get());
    const uint64_t memory = prepare(&guest, mine.reply);
    if (memory == 0) _exit(3);
    guest.write_inline(memory, std::string(4, '\0'));
    launch(&guest, "spin", memory);
    wire::StreamQueryArgs query;
    query.stream = 1;
    if (guest.call(Op::kStreamQuery, query) != CUDA_ERROR_NOT_READY) _exit(4);
    if (write(ends[1], "x", 1) != 1) _exit(2);
    for (;;) pause();
  }
  char byte = 0;
  close(ends[1]);
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  ASSERT_EQ(server_.info()->guests.size(), 2u);
  kill(pid, SIGKILL);
  const double start = now_ms();
  ASSERT_TRUE(eventually([&] { return server_.info()->guests.size() == 1; }));
  std::printf("worker was gone after %.1f ms\n", now_ms() - start);
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 64 * kMiB);
  waitpid(pid, nullptr, 0);
  launch(guest_.get(), "double_all", base_, 1, 32);
  EXPECT_EQ(guest_->synchronize(), 0) << "the other guest is not disturbed";
}

TEST_P(SoftGpu, BadCodeIsRefusedWithALog) {
  const std::string bad(".version 7.5\n.target sm_75\n.address_size 64\nnonsense\n");
  wire::ImageChunkArgs chunk;
  chunk.upload = SlotId::make(8, 1, 1);
  chunk.total = chunk.bytes = bad.size();
  guest_->post(Op::kImageChunk, chunk, bad);
  wire::ModuleLoadArgs load;
  load.module = SlotId::make(4, 1, 1);
  load.upload = chunk.upload;
  load.slab_bytes = 4096;
  load.log_bytes = 1000;
  load.optimization_level = -1;
  protocol::Reply reply;
  EXPECT_EQ(guest_->call(Op::kModuleLoad, load, &reply), CUDA_ERROR_INVALID_PTX);
  wire::ModuleLoadReply answer;
  ASSERT_TRUE(reply.get(&answer));
  EXPECT_EQ(answer.layout_bytes, 0u);
  EXPECT_GT(answer.log_bytes, 0u);
  EXPECT_EQ(guest_->synchronize(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, SoftGpu, ::testing::Values("", "1", "novmm"));

}  // namespace
}  // namespace vgpu::testing
