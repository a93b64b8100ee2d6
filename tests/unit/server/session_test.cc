// A whole session in one process, over loop, on the memory double.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "api/driver_loader.h"
#include "server/serve.h"
#include "tests/support/guest.h"

namespace vgpu::server {
namespace {

using testing::Guest;
using testing::kContextId;

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver_), nullptr);
    auto opened = Devices::open(&driver_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    devices_ = std::make_unique<Devices>(std::move(*opened));
    devices_->reserve_ahead();
    ASSERT_TRUE(devices_->grant_all(256u << 20).ok());
    protocol::HelloReply reply = make_reply(devices_.get(), testing::test_hello(), 1, "test");
    hello_ = reply;
    range_ = reply.device_range;
    auto pair = protocol::make_loop(reply.sizes);
    ASSERT_TRUE(pair.ok());
    worker_ = std::move(protocol::WorkerChannel::create(std::move(pair->worker)).value());
    guest_channel_ = std::move(protocol::GuestChannel::open(std::move(pair->guest)).value());
    guest_ = std::make_unique<Guest>(guest_channel_.get());
    thread_ = std::thread([this, reply] {
      end_ = serve_guest(&driver_, devices_.get(), reply, worker_.get(), {.page = &page_});
    });
    guest_->enter_context();
  }
  void TearDown() override {
    worker_->mark_dead();
    if (thread_.joinable()) thread_.join();
    if (range_.bytes != 0) driver_.cuMemAddressFree(range_.base, range_.bytes);
    unsetenv("MEMORY_DRIVER_BUSY_MS");
  }
  // 4 MiB of device memory at memory_, whichever way this machine allocates.
  void make_memory() {
    memory_ = guest_->allocate(hello_, 4u << 20);
    ASSERT_NE(memory_, 0u);
  }
  // The session has ended by itself, with this reason.
  void expect_end(SessionEnd end) {
    thread_.join();
    EXPECT_EQ(end_, end);
    EXPECT_FALSE(guest_channel_->usable());
  }

  DriverTable driver_;
  std::unique_ptr<Devices> devices_;
  protocol::HelloReply hello_;
  protocol::AddressRange range_;
  uint64_t memory_ = 0;
  std::unique_ptr<protocol::WorkerChannel> worker_;
  std::unique_ptr<protocol::GuestChannel> guest_channel_;
  std::unique_ptr<Guest> guest_;
  WorkerPage page_{};
  SessionEnd end_ = SessionEnd::kGuestGone;
  std::thread thread_;
};

TEST_F(SessionTest, CopiesThroughMappedMemory) {
  make_memory();
  guest_->write_inline(memory_ + 100, "hello device");
  EXPECT_EQ(guest_->read(memory_ + 100, 12), "hello device");
  EXPECT_EQ(guest_->synchronize(), 0);
}

// Without virtual memory management slabs are lent, within the same quota.
class SlabSessionTest : public SessionTest {
 protected:
  void SetUp() override {
    setenv("MEMORY_DRIVER_NOVMM", "1", 1);
    SessionTest::SetUp();
    unsetenv("MEMORY_DRIVER_NOVMM");
  }
};

TEST_F(SlabSessionTest, CopiesThroughLentMemory) {
  ASSERT_EQ(range_.bytes, 0u);
  make_memory();
  guest_->write_inline(memory_ + 100, "hello slab");
  EXPECT_EQ(guest_->read(memory_ + 100, 10), "hello slab");
  wire::SlabLendArgs args;
  args.bytes = 255u << 20;
  EXPECT_EQ(guest_->call(Op::kSlabLend, args), CUDA_ERROR_OUT_OF_MEMORY);
  wire::MemCreditArgs credit;
  credit.bytes = 2u << 20;
  EXPECT_EQ(guest_->call(Op::kMemCredit, credit), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(SessionTest, CreditIsThereAtOnceAndEndsAtTheGrant) {
  if (range_.bytes == 0) GTEST_SKIP() << "no address range in this process (TSan)";
  EXPECT_EQ(guest_channel_->semaphores().wait_for_credit(0, kCreditAheadBytes,
                                                         int64_t{testing::kHangMs} * 1'000'000),
            protocol::WaitResult::kReady);
  wire::MemCreditArgs args;
  args.bytes = 257u << 20;
  EXPECT_EQ(guest_->call(Op::kMemCredit, args), CUDA_ERROR_OUT_OF_MEMORY);
  args.bytes = 256u << 20;
  EXPECT_EQ(guest_->call(Op::kMemCredit, args), 0);
  EXPECT_EQ(page_.used_bytes[0].load(), 256u << 20);
}

TEST_F(SessionTest, WaitsAreAnsweredWhenTheDeviceIsDone) {
  make_memory();
  wire::StreamCreateArgs create;
  create.stream = testing::stream_id(0);
  guest_->post(Op::kStreamCreate, create);
  ASSERT_EQ(guest_->synchronize(), 0);
  setenv("MEMORY_DRIVER_BUSY_MS", "50", 1);
  guest_->write_inline(memory_, "x", create.stream);
  wire::StreamQueryArgs query;
  query.stream = create.stream;
  EXPECT_EQ(guest_->call(Op::kStreamQuery, query), CUDA_ERROR_NOT_READY);
  wire::StreamSynchronizeArgs synchronize;
  synchronize.stream = create.stream;
  EXPECT_EQ(guest_->call(Op::kStreamSynchronize, synchronize), 0);
  EXPECT_EQ(guest_->call(Op::kStreamQuery, query), 0);
}

// One thread waits for the device; another's calls are answered meanwhile.
TEST_F(SessionTest, AWaitingThreadHoldsNobodyUp) {
  make_memory();
  setenv("MEMORY_DRIVER_BUSY_MS", "300", 1);
  guest_->write_inline(memory_, "x");
  std::atomic<bool> past{false};
  std::thread waiter([&] {
    EXPECT_EQ(guest_->synchronize(), 0);
    past = true;
  });
  wire::StreamQueryArgs query;
  query.stream = kLegacyStream;
  EXPECT_EQ(guest_->call(Op::kStreamQuery, query), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(past.load());
  waiter.join();
}

TEST_F(SessionTest, SlabSpaceAndFreesRetireInOrder) {
  make_memory();
  setenv("MEMORY_DRIVER_BUSY_MS", "20", 1);
  wire::CopyToDeviceArgs copy;
  copy.destination = memory_;
  copy.bytes = 1u << 20;
  copy.stream = kLegacyStream;
  uint64_t sequence = 0;
  for (int i = 0; i < 3; ++i) sequence = guest_->post(Op::kCopyToDevice, copy);
  const uint64_t fence = guest_->post(Op::kFreeFence, wire::FreeFenceArgs{});
  auto& semaphores = guest_channel_->semaphores();
  const int64_t limit = int64_t{testing::kHangMs} * 1'000'000;
  EXPECT_EQ(semaphores.wait(protocol::Semaphore::kSlabRetired, sequence, limit),
            protocol::WaitResult::kReady);
  EXPECT_EQ(semaphores.wait(protocol::Semaphore::kFreeRetired, fence, limit),
            protocol::WaitResult::kReady);
}

// A synchronise that is under way has marked the work; a free behind it must wait for it all the
// same.
TEST_F(SessionTest, AFreeWaitsForWorkThatAnotherThreadSynchronizes) {
  make_memory();
  setenv("MEMORY_DRIVER_BUSY_MS", "300", 1);
  guest_->write_inline(memory_, "x");
  std::thread waiter([&] { EXPECT_EQ(guest_->synchronize(), 0); });
  wire::StreamQueryArgs query;
  query.stream = kLegacyStream;
  for (int i = 0; i < 20; ++i) (void)guest_->call(Op::kStreamQuery, query);  // it is under way
  const uint64_t fence = guest_->post(Op::kFreeFence, wire::FreeFenceArgs{});
  EXPECT_EQ(guest_->call(Op::kStreamQuery, query), CUDA_ERROR_NOT_READY);
  EXPECT_LT(guest_channel_->semaphores().value(protocol::Semaphore::kFreeRetired), fence);
  EXPECT_EQ(guest_channel_->semaphores().wait(protocol::Semaphore::kFreeRetired, fence,
                                              int64_t{testing::kHangMs} * 1'000'000),
            protocol::WaitResult::kReady);
  EXPECT_EQ(guest_->call(Op::kStreamQuery, query), 0);
  waiter.join();
}

// What a driver would follow is measured before the driver sees it.
class Images : public SessionTest {
 protected:
  // Asks for the image to be loaded, and does not wait: a session that ends answers nothing.
  uint32_t load(const std::string& image) {
    wire::ImageChunkArgs chunk;
    chunk.upload = 1;
    chunk.total = chunk.bytes = image.size();
    guest_->post(Op::kImageChunk, chunk, image);
    wire::ModuleLoadArgs load;
    load.module = SlotId::make(4, 1, 0);
    load.upload = 1;
    load.slab_bytes = 4096;
    const uint32_t slot = guest_channel_->replies().acquire();
    std::lock_guard lock(guest_channel_->lock());
    protocol::write_record(&guest_channel_->producer(), static_cast<uint16_t>(Op::kModuleLoad),
                           load, {}, slot);
    return slot;
  }
};

TEST_F(Images, TextReachesTheDriver) {
  const uint32_t slot = load("//\n.version 8.0\n");
  protocol::Reply reply;
  ASSERT_EQ(guest_channel_->replies().wait(slot, &reply, int64_t{testing::kHangMs} * 1'000'000),
            protocol::WaitResult::kReady);
  EXPECT_EQ(reply.result, CUDA_SUCCESS) << "the double loads any text";
  EXPECT_EQ(guest_->synchronize(), 0) << "and the session goes on";
}

TEST_F(Images, VariablesGoWithTheirModule) {
  const uint32_t slot = load("//\n.version 8.0\n");
  protocol::Reply loaded;
  ASSERT_EQ(guest_channel_->replies().wait(slot, &loaded, int64_t{testing::kHangMs} * 1'000'000),
            protocol::WaitResult::kReady);
  wire::ModuleGlobalArgs args;
  args.module = SlotId::make(4, 1, 0);
  protocol::Reply reply;
  wire::ModuleGlobalReply global;
  ASSERT_EQ(guest_->call(Op::kModuleGlobal, args, &reply, "variable"), 0);
  ASSERT_TRUE(reply.get(&global));
  guest_->write_inline(global.address, "mine");
  EXPECT_EQ(guest_->read(global.address, 4), "mine");
  wire::ModuleUnloadArgs unload;
  unload.module = args.module;
  guest_->post(Op::kModuleUnload, unload);
  guest_->write_inline(global.address, "gone");
  expect_end(SessionEnd::kMalformed);
}

TEST_F(Images, AddressesInAnImageEndTheSession) {
  const struct {
    uint32_t magic = 0x466243B1, version = 1;
    const void* container = reinterpret_cast<const void*>(0x10);
    const void* relocatable = nullptr;
  } wrapper;
  load(std::string(reinterpret_cast<const char*>(&wrapper), sizeof(wrapper)));
  expect_end(SessionEnd::kMalformed);
}

TEST_F(Images, AContainerThatClaimsMoreThanCameEndsTheSession) {
  const struct {
    uint32_t magic = 0xBA55ED50;
    uint16_t version = 1, header_bytes = 16;
    uint64_t body_bytes = 1u << 30;
  } header;
  load(std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
  expect_end(SessionEnd::kMalformed);
}

// Each of these ends the session, and only by what stands in the record.
class Malformed : public SessionTest,
                  public ::testing::WithParamInterface<std::function<void(Guest*, uint64_t)>> {};

TEST_P(Malformed, EndsTheSession) {
  make_memory();
  GetParam()(guest_.get(), memory_);
  expect_end(SessionEnd::kMalformed);
}

template <typename T>
std::function<void(Guest*, uint64_t)> command(Op op, std::function<void(T*, uint64_t)> fill) {
  return [op, fill](Guest* guest, uint64_t base) {
    T args;
    fill(&args, base);
    guest->post(op, args);
  };
}

INSTANTIATE_TEST_SUITE_P(
    Records, Malformed,
    ::testing::Values(
        command<wire::ContextBindArgs>(Op::kContextBind,
                                       [](auto* a, uint64_t) { a->context = 99; }),
        command<wire::StreamDestroyArgs>(
            Op::kStreamDestroy, [](auto* a, uint64_t) { a->stream = testing::stream_id(9); }),
        command<wire::EventRecordArgs>(Op::kEventRecord,
                                       [](auto* a, uint64_t) { a->event = 16, a->stream = 1; }),
        command<wire::CopyToDeviceArgs>(Op::kCopyToDevice,
                                        [](auto* a, uint64_t base) {
                                          a->destination = base;
                                          a->bytes = 4096;
                                          a->slab_offset = ~uint64_t{0} - 100;
                                          a->stream = 1;
                                        }),
        command<wire::CopyToDeviceArgs>(Op::kCopyToDevice,
                                        [](auto* a, uint64_t base) {
                                          a->destination = base + (4u << 20) - 1;
                                          a->bytes = 2;
                                          a->stream = 1;
                                        }),
        command<wire::CopyToDeviceInPlaceArgs>(Op::kCopyToDeviceInPlace,
                                               [](auto* a, uint64_t base) {
                                                 a->destination = base;
                                                 a->source = reinterpret_cast<uint64_t>(a);
                                                 a->bytes = 8;
                                                 a->stream = 1;
                                               }),
        command<wire::FillArgs>(Op::kFill,
                                [](auto* a, uint64_t base) {
                                  a->destination = base;
                                  a->count = ~uint64_t{0} / 2;
                                  a->width = 4;
                                  a->stream = 1;
                                }),
        command<wire::MemMapArgs>(
            Op::kMemMap, [](auto* a, uint64_t base) { a->address = base, a->bytes = 2u << 20; }),
        command<wire::MemReleaseArgs>(Op::kMemRelease,
                                      [](auto* a, uint64_t base) {
                                        a->address = base;
                                        a->bytes = 2u << 20;
                                      }),
        command<wire::CreditReturnArgs>(Op::kCreditReturn,
                                        [](auto* a, uint64_t) { a->bytes = uint64_t{1} << 40; }),
        command<wire::PhysicalCreateArgs>(Op::kPhysicalCreate,
                                          [](auto* a, uint64_t) { a->handle = 64, a->bytes = 5; }),
        command<wire::PhysicalCreateArgs>(Op::kPhysicalCreate,
                                          [](auto* a, uint64_t) {
                                            a->handle = 64;
                                            a->bytes = 2u << 20;
                                            a->device = 1;  // it has one
                                          }),
        command<wire::PhysicalMapArgs>(Op::kPhysicalMap,
                                       [](auto* a, uint64_t base) {
                                         a->handle = 64;
                                         a->address = base;
                                       }),
        command<wire::PhysicalReleaseArgs>(Op::kPhysicalRelease,
                                           [](auto* a, uint64_t) { a->handle = 64; }),
        command<wire::PhysicalUnmapArgs>(Op::kPhysicalUnmap,
                                         [](auto* a, uint64_t base) {
                                           a->address = base;
                                           a->bytes = 2u << 20;
                                         }),
        command<wire::PhysicalAccessArgs>(Op::kPhysicalAccess,
                                          [](auto* a, uint64_t base) {
                                            a->address = base;
                                            a->bytes = 2u << 20;
                                            a->flags = 3;
                                          }),
        command<wire::PhysicalExportArgs>(Op::kPhysicalExport,
                                          [](auto* a, uint64_t) { a->handle = 64; }),
        command<wire::PhysicalImportArgs>(Op::kPhysicalImport,
                                          [](auto* a, uint64_t) { a->handle = 64, a->number = 1; }),
        command<wire::ShareDropArgs>(Op::kShareDrop, [](auto* a, uint64_t) { a->number = 1; }),
        command<wire::PeerMapArgs>(
            Op::kPeerMap, [](auto* a, uint64_t base) { a->number = 1, a->address = base; }),
        command<wire::ImageChunkArgs>(Op::kImageChunk,
                                      [](auto* a, uint64_t) { a->total = ~uint64_t{0}; }),
        command<wire::TextureCreateArgs>(Op::kTextureCreate,
                                         [](auto* a, uint64_t base) {  // a row wraps to nothing
                                           a->type = CU_RESOURCE_TYPE_PITCH2D;
                                           a->resource = base;
                                           a->format = CU_AD_FORMAT_FLOAT;
                                           a->channels = 4;
                                           a->width = a->pitch = uint64_t{1} << 60;
                                           a->height = 1;
                                         }),
        command<wire::LaunchArgs>(Op::kLaunch,
                                  [](auto* a, uint64_t) { a->module = 64, a->stream = 1; }),
        command<wire::LaunchArgs>(static_cast<Op>(0x7777), [](auto*, uint64_t) {}),
        command<wire::LaunchArgs>(Op::kFill, [](auto*, uint64_t) {})));

}  // namespace
}  // namespace vgpu::server
