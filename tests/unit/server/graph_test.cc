// Graphs as a hostile guest sends them.
// SPDX-License-Identifier: Apache-2.0
#include "server/graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "api/driver_loader.h"
#include "protocol/wire/graph_nodes.h"
#include "server/serve.h"
#include "tests/support/guest.h"

namespace vgpu::server {
namespace {

using protocol::GraphNodeHeader;
using testing::Guest;

constexpr uint64_t kGraphId = SlotId::make(0x22, 1, 0);
using Bytes = std::vector<std::byte>;

class GraphSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver_), nullptr);
    auto opened = Devices::open(&driver_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    devices_ = std::make_unique<Devices>(std::move(*opened));
    devices_->reserve_ahead();
    ASSERT_TRUE(devices_->grant_all(64u << 20).ok());
    hello_ = make_reply(devices_.get(), testing::test_hello(), 1, "test");
    auto pair = protocol::make_loop(hello_.sizes);
    ASSERT_TRUE(pair.ok());
    worker_ = std::move(protocol::WorkerChannel::create(std::move(pair->worker)).value());
    channel_ = std::move(protocol::GuestChannel::open(std::move(pair->guest)).value());
    guest_ = std::make_unique<Guest>(channel_.get());
    thread_ = std::thread([this] {
      end_ = serve_guest(&driver_, devices_.get(), hello_, worker_.get(), {.page = &page_});
    });
    guest_->enter_context();
    memory_ = guest_->allocate(hello_, 4u << 20);
    ASSERT_NE(memory_, 0u);
  }
  void TearDown() override {
    worker_->mark_dead();
    if (thread_.joinable()) thread_.join();
    if (hello_.device_range.bytes != 0)
      driver_.cuMemAddressFree(hello_.device_range.base, hello_.device_range.bytes);
  }

  static void append(Bytes* out, uint32_t number, Op op, const Bytes& command,
                     std::vector<uint32_t> before = {}) {
    GraphNodeHeader header;
    header.number = number;
    header.op = static_cast<uint16_t>(op);
    protocol::append_graph_node(out, header, before, command);
  }
  template <typename Args>
  static Bytes bytes_of(const Args& args) {
    const auto* first = reinterpret_cast<const std::byte*>(&args);
    return {first, first + sizeof(args)};
  }
  wire::RectFillArgs fill() const {
    wire::RectFillArgs args;
    args.destination = memory_;
    args.count = 16;
    args.height = 1;
    args.bytes = 64;
    args.width = 4;
    return args;
  }
  uint64_t upload(const Bytes& bytes) {
    wire::ImageChunkArgs chunk;
    chunk.upload = ++uploads_;
    chunk.total = chunk.bytes = bytes.size();
    guest_->post(Op::kImageChunk, chunk,
                 std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return uploads_;
  }
  int instantiate(const Bytes& bytes, uint32_t nodes) {
    wire::GraphInstantiateArgs args;
    args.graph = kGraphId;
    args.upload = upload(bytes);
    args.nodes = nodes;
    return guest_->call(Op::kGraphInstantiate, args);
  }
  // Asks, and waits for the end of the session instead of for the answer.
  void expect_malformed(const wire::GraphInstantiateArgs& args) {
    const uint32_t slot = channel_->replies().acquire();
    {
      std::lock_guard lock(channel_->lock());
      protocol::write_record(&channel_->producer(), static_cast<uint16_t>(Op::kGraphInstantiate),
                             args, {}, slot);
    }
    thread_.join();
    EXPECT_EQ(end_, SessionEnd::kMalformed);
  }
  void expect_malformed(const Bytes& bytes, uint32_t nodes) {
    wire::GraphInstantiateArgs args;
    args.graph = kGraphId;
    args.upload = upload(bytes);
    args.nodes = nodes;
    expect_malformed(args);
  }

  DriverTable driver_;
  std::unique_ptr<Devices> devices_;
  protocol::HelloReply hello_;
  uint64_t memory_ = 0, uploads_ = 0;
  std::unique_ptr<protocol::WorkerChannel> worker_;
  std::unique_ptr<protocol::GuestChannel> channel_;
  std::unique_ptr<Guest> guest_;
  WorkerPage page_{};
  SessionEnd end_ = SessionEnd::kGuestGone;
  std::thread thread_;
};

TEST_F(GraphSessionTest, ANodeThatComesBeforeALaterOne) {
  Bytes bytes;
  append(&bytes, 0, Op::kRectFill, bytes_of(fill()), {1});
  append(&bytes, 1, Op::kRectFill, bytes_of(fill()), {0});
  expect_malformed(bytes, 2);
}

TEST_F(GraphSessionTest, ANodeThatComesBeforeItself) {
  Bytes bytes;
  append(&bytes, 0, Op::kRectFill, bytes_of(fill()), {0});
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, ADependencyTwice) {
  Bytes bytes;
  append(&bytes, 0, Op::kRectFill, bytes_of(fill()));
  append(&bytes, 1, Op::kRectFill, bytes_of(fill()), {0, 0});
  expect_malformed(bytes, 2);
}

TEST_F(GraphSessionTest, MoreNodesThanThereAre) {
  Bytes bytes;
  append(&bytes, 0, Op::kRectFill, bytes_of(fill()));
  expect_malformed(bytes, 2);
}

TEST_F(GraphSessionTest, FewerNodesThanThereAre) {
  Bytes bytes;
  append(&bytes, 0, Op::kRectFill, bytes_of(fill()));
  append(&bytes, 1, Op::kRectFill, bytes_of(fill()));
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, ACommandThatIsNone) {
  Bytes bytes;
  append(&bytes, 0, Op::kContextDestroy, Bytes(8));
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, ACommandThatIsTooShort) {
  Bytes bytes, command = bytes_of(fill());
  command.resize(command.size() - 8);
  append(&bytes, 0, Op::kRectFill, command);
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, SizesBeyondTheUpload) {
  Bytes bytes;
  append(&bytes, 0, Op::kRectFill, bytes_of(fill()));
  GraphNodeHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.before = 0xffffffff;
  std::memcpy(bytes.data(), &header, sizeof(header));
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, WithoutAnUpload) {
  wire::GraphInstantiateArgs args;
  args.graph = kGraphId;
  args.upload = 77;
  args.nodes = 1;
  expect_malformed(args);
}

TEST_F(GraphSessionTest, AnUnknownGraph) {
  wire::GraphLaunchArgs args;
  args.graph = kGraphId;
  args.stream = 1;
  guest_->post(Op::kGraphLaunch, args);
  thread_.join();
  EXPECT_EQ(end_, SessionEnd::kMalformed);
}

TEST_F(GraphSessionTest, AConditionalNodeWithoutHandles) {
  protocol::GraphConditionalNode node;
  node.handle = 77;
  node.bodies = 1;
  Bytes bytes, command = bytes_of(node);
  command.resize(command.size() + sizeof(uint32_t));
  append(&bytes, 0, Op::kGraphConditional, command);
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, AClusterThatIsNoSize) {
  wire::LaunchArgs kernel;
  kernel.cluster = 0x020303;  // 18 blocks
  Bytes bytes;
  append(&bytes, 0, Op::kLaunch, bytes_of(kernel));
  expect_malformed(bytes, 1);
}

TEST_F(GraphSessionTest, AnUnknownSourceOfHandles) {
  wire::GraphInstantiateArgs args;
  args.graph = kGraphId;
  args.source = SlotId::make(0x24, 1, 0);
  expect_malformed(args);
}

TEST_F(GraphSessionTest, ASourceThatIsForgottenTwice) {
  wire::GraphForgetArgs args;
  args.source = SlotId::make(0x24, 1, 0);
  guest_->post(Op::kGraphForget, args);
  thread_.join();
  EXPECT_EQ(end_, SessionEnd::kMalformed);
}

// Nodes as find_regions sees them: how many each body has, and what a node comes after.
struct Shape {
  std::vector<uint32_t> bodies = {}, before = {};
};
std::vector<GraphNode> nodes_of(const std::vector<Shape>& shapes) {
  std::vector<GraphNode> nodes;
  for (const Shape& shape : shapes) {
    GraphNode& node = nodes.emplace_back();
    node.body_nodes = shape.bodies;
    node.before = shape.before;
  }
  return nodes;
}

TEST(GraphRegionsTest, BodiesFollowOneAnother) {
  std::vector<uint32_t> region;
  const auto nodes = nodes_of({{}, {{2, 0, 1}, {0}}, {{1}, {1}}, {}, {{}, {3}}, {{1}}, {}, {}});
  ASSERT_TRUE(find_regions(nodes, &region));
  EXPECT_EQ(region, (std::vector<uint32_t>{0, 0, 0, 1, 1, 3, 4, 5}));
}

TEST(GraphRegionsTest, WhatDoesNotFit) {
  std::vector<uint32_t> region;
  EXPECT_FALSE(find_regions(nodes_of({{{2}}, {}}), &region));  // more than there are
  EXPECT_FALSE(find_regions(nodes_of({{{0xffffffff, 1}}, {}}), &region));
  EXPECT_FALSE(find_regions(nodes_of({{}, {{2}}}), &region));         // itself in its body
  EXPECT_FALSE(find_regions(nodes_of({{{1}}, {{}, {0}}}), &region));  // after one of another body
  EXPECT_FALSE(find_regions(nodes_of({{{1, 1}}, {}, {{}, {1}}}), &region));
  std::vector<Shape> deep(protocol::kGraphNestingMax + 1, Shape{{1}});
  deep.push_back({});
  EXPECT_FALSE(find_regions(nodes_of(deep), &region));
  deep.erase(deep.begin());
  EXPECT_TRUE(find_regions(nodes_of(deep), &region));
}

// What may be another thread's doing is an answer, and the session goes on.
TEST_F(GraphSessionTest, WhatIsNotTheGuests) {
  Bytes foreign;
  wire::RectFillArgs args = fill();
  args.destination = 0x1000;
  append(&foreign, 0, Op::kRectFill, bytes_of(args));
  EXPECT_EQ(instantiate(foreign, 1), CUDA_ERROR_INVALID_VALUE);
  Bytes event;
  wire::EventRecordArgs record;
  record.event = testing::event_id(5);
  append(&event, 0, Op::kEventRecord, bytes_of(record));
  EXPECT_EQ(instantiate(event, 1), CUDA_ERROR_INVALID_VALUE);
  Bytes launch;
  wire::LaunchArgs kernel;
  kernel.module = SlotId::make(4, 1, 0);
  append(&launch, 0, Op::kLaunch, bytes_of(kernel));
  EXPECT_EQ(instantiate(launch, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(guest_->synchronize(), 0);
}

}  // namespace
}  // namespace vgpu::server
