// Tensor copies beyond plain boxes: columns of pixels (im2col), rows that are named one by one
// (gather4), and boxes for several blocks of a cluster. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "executor.h"
#include "tensor_maps.h"

namespace vgpu::softgpu {
namespace {

constexpr uint32_t kShared = 4096;  // bytes of each block that come back

// Thread 0 of block 0 makes `copy`, whose bytes every block waits for; then all shared memory comes
// out, and thread 0 runs `then`.
std::string kernel(const std::string& copy, const std::string& then) {
  return R"(.version 9.0
.target sm_121
.address_size 64
.visible .entry k(.param .u64 pm, .param .u64 po, .param .u32 pb)
{
  .shared .align 1024 .b8 buffer[4096];
  .shared .align 8 .b64 bar;
  .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %t, %s, %bar, %at, %v, %rank;
  .reg .b64 %map, %out, %by, %state;
  ld.param.u64 %map, [pm];
  ld.param.u64 %out, [po];
  ld.param.u32 %v, [pb];
  mov.u32 %s, buffer;
  mov.u32 %bar, bar;
  mov.u32 %t, %tid.x;
  mov.u32 %rank, %cluster_ctarank;
  setp.ne.u32 %p0, %t, 0;
  @%p0 bra $ready;
  mbarrier.init.shared::cta.b64 [%bar], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%bar], %v;
$ready:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  or.b32 %at, %t, %rank;
  setp.ne.u32 %p3, %at, 0;
  @%p3 bra $wait;
)" + copy +
         R"(
$wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
  @!%p1 bra $wait;
  mul.wide.u32 %by, %rank, 4096;
  add.s64 %out, %out, %by;
  mov.u32 %at, %t;
$copy:
  add.u32 %v, %s, %at;
  ld.shared.u8 %v, [%v];
  cvt.u64.u32 %by, %at;
  add.s64 %by, %by, %out;
  st.global.u8 [%by], %v;
  add.u32 %at, %at, 32;
  setp.lt.u32 %p2, %at, 4096;
  @%p2 bra $copy;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @%p3 bra $done;
)" + then +
         "$done:\n  ret;\n}\n";
}

std::vector<uint8_t> run(const std::string& text, const TensorMap& map, uint32_t bytes,
                         uint32_t blocks = 1, std::string* fault = nullptr) {
  std::vector<uint8_t> out(kShared * blocks);
  alignas(64) TensorMap own = map;
  const uint64_t params[3] = {reinterpret_cast<uint64_t>(&own),
                              reinterpret_cast<uint64_t>(out.data()), bytes};
  std::string error;
  auto module = TestModule::load(text, &error);
  EXPECT_NE(module, nullptr) << error;
  if (module == nullptr) return out;
  Launch launch;
  launch.grid.x = launch.cluster.x = blocks;
  launch.cluster.y = launch.cluster.z = 1;
  launch.block.x = 32;
  launch.params = params;
  const bool ran = module->run(0, Lanes::kWarp, launch, &error);
  if (fault != nullptr)
    *fault = ran ? "" : error;
  else
    EXPECT_TRUE(ran) << error;
  return out;
}

uint16_t half_at(const std::vector<uint8_t>& bytes, size_t i) {
  uint16_t v;
  std::memcpy(&v, &bytes[2 * i], 2);
  return v;
}

// Images of kWidth x kHeight pixels of kChannels, for a filter of 3 x 3 that looks one pixel
// beyond each edge.
constexpr int kChannels = 16, kWidth = 5, kHeight = 4, kImages = 3;

TensorMap pixel_map(std::vector<uint16_t>* data, int channels, int pixels, int step) {
  *data = counting<uint16_t>(kChannels * kWidth * kHeight * kImages);
  TensorMap map =
      map_of(data->data(), CU_TENSOR_MAP_DATA_TYPE_UINT16, {kChannels, kWidth, kHeight, kImages},
             {static_cast<uint16_t>(channels), static_cast<uint16_t>(pixels), 0, 0});
  map.mode = static_cast<uint8_t>(TensorMode::kPixels);
  map.steps[1] = map.steps[2] = static_cast<uint8_t>(step);
  for (int d = 0; d < 2; ++d) map.lower[d] = map.upper[d] = -1;
  return map;
}

struct Place {
  int w, h, n;
  bool inside() const {
    return w >= 0 && w < kWidth && h >= 0 && h < kHeight && n >= 0 && n < kImages;
  }
  size_t index() const { return ((n * kHeight + h) * kWidth + w) * size_t{kChannels}; }
};

// The corners of all windows of the filter, in the order in which columns go through them.
std::vector<Place> corners(int step) {
  std::vector<Place> all;
  for (int n = 0; n < kImages + 1; ++n) {
    for (int h = -1; h <= kHeight - 2; h += step) {
      for (int w = -1; w <= kWidth - 2; w += step) all.push_back({w, h, n});
    }
  }
  return all;
}

std::string place_text(const Place& p, int channel) {
  return "{" + std::to_string(channel) + ", " + std::to_string(p.w) + ", " + std::to_string(p.h) +
         ", " + std::to_string(p.n) + "}";
}

TEST(TensorModes, ColumnsOfPixelsForEveryPlaceOfAFilter) {
  std::vector<uint16_t> data;
  for (const int step : {1, 2}) {
    const std::vector<Place> all = corners(step);
    const int pixels = step == 1 ? 33 : 11, first = step == 1 ? 14 : 4;
    const TensorMap map = pixel_map(&data, 8, pixels, step);
    for (int filter = 0; filter < 9; ++filter) {
      const int x = filter % 3, y = filter / 3;
      const auto got = run(
          kernel("cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes "
                 "[%s], [%map, " +
                     place_text(all[first], 8) + "], [%bar], {" + std::to_string(x) + ", " +
                     std::to_string(y) + "};",
                 ""),
          map, static_cast<uint32_t>(map.box_bytes()));
      for (int i = 0; i < pixels; ++i) {
        Place p = all[first + i];
        p.w += x;
        p.h += y;
        for (int c = 0; c < 8; ++c) {
          ASSERT_EQ(half_at(got, i * 8 + c), p.inside() ? data[p.index() + 8 + c] : 0)
              << "step " << step << ", filter " << x << " " << y << ", pixel " << i;
        }
      }
    }
  }
}

TEST(TensorModes, ColumnsAreWrittenAndAddedWithoutOffsets) {
  std::vector<uint16_t> data;
  const std::vector<Place> all = corners(1);
  constexpr int kPixels = 24, kFirst = 3, kTo = 20;
  const TensorMap map = pixel_map(&data, kChannels, kPixels, 1);
  const auto before = data;
  run(kernel("cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes "
             "[%s], [%map, " +
                 place_text(all[kFirst], 0) + "], [%bar], {1, 1};",
             "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%map, " +
                 place_text(all[kTo], 0) + "], [%s];\n"),
      map, static_cast<uint32_t>(map.box_bytes()));
  auto want = before;
  for (int i = 0; i < kPixels; ++i) {
    const Place to = all[kTo + i];
    Place from = all[kFirst + i];
    ++from.w, ++from.h;
    if (!to.inside()) continue;
    for (int c = 0; c < kChannels; ++c)
      want[to.index() + c] = from.inside() ? before[from.index() + c] : 0;
  }
  EXPECT_EQ(data, want);
}

TEST(TensorModes, FourRowsThatAreNamed) {
  const auto data = counting<uint16_t>(32 * 20);
  const TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT16, {32, 20}, {16, 1});
  const int rows[4] = {7, 0, 25, 19};
  const auto got = run(
      kernel(
          "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
          "[%s], [%map, {8, 7, 0, 25, 19}], [%bar];",
          ""),
      map, 4 * 32);
  for (int i = 0; i < 4; ++i) {
    for (int x = 0; x < 16; ++x)
      EXPECT_EQ(half_at(got, i * 16 + x), rows[i] < 20 ? data[rows[i] * 32 + 8 + x] : 0) << i;
  }
}

TEST(TensorModes, OneBoxForSeveralBlocks) {
  const auto data = counting<uint16_t>(32 * 20);
  const TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT16, {32, 20}, {16, 4});
  const std::string text = kernel(
      "mov.b16 %h0, 0xf;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
      "multicast::cluster [%s], [%map, {16, 3}], [%bar], %h0;",
      "");
  const auto got = run(text, map, 16 * 4 * 2, 4);
  for (int block = 0; block < 4; ++block) {
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(half_at(got, block * kShared / 2 + i), data[(3 + i / 16) * 32 + 16 + i % 16])
          << block;
    }
  }
  std::string fault;
  run(text, map, 16 * 4 * 2, 2, &fault);
  EXPECT_NE(fault.find("no such block"), std::string::npos) << fault;
}

TEST(TensorModes, AMapIsForOneWayOfCopying) {
  std::vector<uint16_t> data;
  const TensorMap pixels = pixel_map(&data, 8, 4, 1);
  const TensorMap box =
      map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT16, {16, 5, 4, 3}, {8, 2, 1, 1});
  const std::string as_box =
      "cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%s], [%map, "
      "{0, 0, 0, 0}], [%bar];";
  const std::string as_pixels =
      "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%s], [%map, "
      "{0, 0, 0, 0}], [%bar], {0, 0};";
  std::string fault;
  run(kernel(as_box, ""), pixels, 64, 1, &fault);
  EXPECT_NE(fault.find("no tensor map"), std::string::npos) << fault;
  run(kernel(as_pixels, ""), box, 64, 1, &fault);
  EXPECT_NE(fault.find("no tensor map"), std::string::npos) << fault;
}

}  // namespace
}  // namespace vgpu::softgpu
