// Boxes of tensors that go to shared memory and back: shapes, edges, swizzles, reductions, and maps
// that kernels change. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "executor.h"
#include "tensor_maps.h"

namespace vgpu::softgpu {
namespace {

constexpr uint32_t kSharedBytes = 16384;

// Loads a box into shared memory, which is copied out, and runs `then`. %map, %s (shared), and
// coordinates in %c0…%c4 are there.
std::string kernel(unsigned dimensions, const std::string& before, const std::string& then) {
  std::string list;
  for (unsigned d = 0; d < dimensions; ++d) list += (d == 0 ? "%c" : ", %c") + std::to_string(d);
  return R"(.version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 pm, .param .u64 pc, .param .u64 po)
{
  .shared .align 1024 .b8 buffer[16384];
  .shared .align 8 .b64 bar;
  .reg .pred %p<4>; .reg .b32 %t, %s, %bar, %at, %v, %c<5>; .reg .b64 %map, %co, %out, %by, %state;
  ld.param.u64 %map, [pm];
  ld.param.u64 %co, [pc];
  ld.param.u64 %out, [po];
  mov.u32 %s, buffer;
  mov.u32 %bar, bar;
  mov.u32 %t, %tid.x;
  ld.global.b32 %c0, [%co];
  ld.global.b32 %c1, [%co+4];
  ld.global.b32 %c2, [%co+8];
  ld.global.b32 %c3, [%co+12];
  ld.global.b32 %c4, [%co+16];
  setp.ne.u32 %p0, %t, 0;
  @%p0 bra $wait;
  mbarrier.init.shared::cta.b64 [%bar], 1;
)" + before +
         "  ld.global.b32 %v, [%co+20];\n"
         "  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%bar], %v;\n"
         "  cp.async.bulk.tensor." +
         std::to_string(dimensions) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%map, {" + list +
         R"(}], [%bar];
$wait:
  bar.sync 0;
$again:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
  @!%p1 bra $again;
  mov.u32 %at, %t;
$copy:
  add.u32 %v, %s, %at;
  ld.shared.u8 %c4, [%v];
  cvt.u64.u32 %by, %at;
  add.s64 %by, %by, %out;
  st.global.u8 [%by], %c4;
  add.u32 %at, %at, 32;
  setp.lt.u32 %p2, %at, 16384;
  @%p2 bra $copy;
  bar.sync 0;
  ld.global.b32 %c4, [%co+16];
  @%p0 bra $done;
)" + then +
         "$done:\n  ret;\n}\n";
}

// Shared memory after a load at `at`.
std::vector<uint8_t> run(const std::string& text, const TensorMap& map, std::vector<int32_t> at,
                         std::string* fault = nullptr) {
  std::vector<uint8_t> out(kSharedBytes);
  at.resize(5);
  at.push_back(static_cast<int32_t>(map.box_bytes()));
  alignas(64) TensorMap own = map;
  const uint64_t params[3] = {reinterpret_cast<uint64_t>(&own),
                              reinterpret_cast<uint64_t>(at.data()),
                              reinterpret_cast<uint64_t>(out.data())};
  std::string error;
  auto module = TestModule::load(text, &error);
  EXPECT_NE(module, nullptr) << error;
  if (module == nullptr) return out;
  Launch launch;
  launch.block.x = 32;
  launch.params = params;
  const bool ran = module->run(0, Lanes::kWarp, launch, &error);
  if (fault != nullptr)
    *fault = ran ? "" : error;
  else
    EXPECT_TRUE(ran) << error;
  return out;
}

TEST(Tensor, BoxesOfEveryDimension) {
  const auto data = counting<uint32_t>(8 * 6 * 5 * 4 * 3);
  const uint32_t sizes[5] = {8, 6, 5, 4, 3};
  const uint16_t box[5] = {4, 3, 2, 2, 2};
  const int32_t at[5] = {4, 2, 3, 1, 1};
  for (unsigned rank = 1; rank <= 5; ++rank) {
    SCOPED_TRACE(rank);
    const TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT32, {sizes, sizes + rank},
                                 {box, box + rank});
    const auto got = run(kernel(rank, "", ""), map, {at, at + rank});
    size_t place = 0;
    uint32_t i[5];
    const auto limit = [&](unsigned d) { return d < rank ? box[d] : 1u; };
    for (i[4] = 0; i[4] < limit(4); ++i[4])
      for (i[3] = 0; i[3] < limit(3); ++i[3])
        for (i[2] = 0; i[2] < limit(2); ++i[2])
          for (i[1] = 0; i[1] < limit(1); ++i[1])
            for (i[0] = 0; i[0] < limit(0); ++i[0]) {
              size_t index = 0;
              for (unsigned d = rank; d-- > 0;) index = index * sizes[d] + (at[d] + i[d]);
              uint32_t v;
              std::memcpy(&v, &got[4 * place++], 4);
              ASSERT_EQ(v, data[index]) << "place " << place - 1;
            }
  }
}

TEST(Tensor, WhatIsOutsideIsFilledAndNeverWritten) {
  auto data = counting<float>(20 * 6);
  TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_FLOAT32, {20, 6}, {8, 4});
  for (const bool nan : {false, true}) {
    map.fill = nan ? 1 : 0;
    const auto got = run(kernel(2, "", ""), map, {-3, 4});
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 8; ++x) {
        float v;
        std::memcpy(&v, &got[4 * (y * 8 + x)], 4);
        const bool inside = x >= 3 && y < 2;
        if (!inside && nan) {
          EXPECT_NE(v, v);
        } else {
          EXPECT_EQ(v, inside ? data[(y + 4) * 20 + x - 3] : 0) << x << ", " << y;
        }
      }
    }
  }
  // Stored elsewhere: beside the end, and before the beginning.
  const auto before = data;
  map.fill = 0;
  run(kernel(
          2, "",
          "  mov.u32 %c0, 16;\n  mov.u32 %c1, -2;\n"
          "  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {%c0, %c1}], [%s];\n"
          "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n"),
      map, {0, 0});
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 20; ++x) {
      const bool written = x >= 16 && y < 2;
      EXPECT_EQ(data[y * 20 + x], written ? before[(y + 2) * 20 + x - 16] : before[y * 20 + x])
          << x << ", " << y;
    }
  }
}

// Sixteen bytes of row r change places as CUDA describes: with 128 bytes, piece c goes to c ^ r
// % 8.
TEST(Tensor, SwizzledRowsComeBack) {
  struct Mode {
    uint32_t mode, row_bytes;
    std::function<uint32_t(uint32_t row, uint32_t byte)> place;  // in its row
  };
  const Mode modes[] = {
      {CU_TENSOR_MAP_SWIZZLE_128B, 128,
       [](uint32_t row, uint32_t byte) { return byte ^ row % 8 * 16; }},
      {CU_TENSOR_MAP_SWIZZLE_64B, 64,
       [](uint32_t row, uint32_t byte) { return byte ^ row / 2 % 4 * 16; }},
      {CU_TENSOR_MAP_SWIZZLE_32B, 32,
       [](uint32_t row, uint32_t byte) { return byte ^ row / 4 % 2 * 16; }},
      {CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, 128,
       [](uint32_t row, uint32_t byte) { return byte ^ row % 4 * 32; }},
      {CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B, 128,
       [](uint32_t row, uint32_t byte) { return byte ^ row % 4 * 32 ^ row / 1 % 2 * 8; }},
      {CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B, 128,
       [](uint32_t row, uint32_t byte) { return byte ^ row % 2 * 64; }}};
  for (const Mode& m : modes) {
    SCOPED_TRACE(m.mode);
    auto data = counting<uint16_t>(m.row_bytes * 32);
    const auto columns = static_cast<uint16_t>(m.row_bytes / 2);
    const TensorMap map =
        map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT16, {columns, 64}, {columns, 16}, m.mode);
    const auto got = run(
        kernel(
            2, "",
            "  add.s32 %c1, %c1, 32;\n"
            "  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%c0, %c1}], [%s];\n"),
        map, {0, 8});
    for (uint32_t row = 0; row < 16; ++row) {
      for (uint32_t x = 0; x < columns; ++x) {
        uint16_t v;
        std::memcpy(&v, &got[row * m.row_bytes + m.place(row, 2 * x)], 2);
        ASSERT_EQ(v, static_cast<uint16_t>((row + 8) * columns + x + 1)) << row << ", " << x;
        ASSERT_EQ(data[(row + 40) * columns + x], v) << "stored";
      }
    }
  }
}

TEST(Tensor, StepsLeaveElementsOut) {
  const auto data = counting<uint32_t>(8 * 12);
  TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT32, {8, 12}, {4, 9});
  map.steps[1] = 4;
  const auto got = run(kernel(2, "", ""), map, {0, 1});
  for (uint32_t y = 0; y < 3; ++y) {
    uint32_t v;
    std::memcpy(&v, &got[16 * y], 4);
    EXPECT_EQ(v, (1 + 4 * y) * 8 + 1);
  }
}

template <typename T>
void reduce(const char* name, uint32_t type, const char* op, std::function<T(T, T)> want) {
  SCOPED_TRACE(std::string(op) + " " + name);
  auto data = counting<T>(8 * 4);
  const auto before = data;
  const TensorMap map = map_of(data.data(), type, {8, 4}, {8, 2});
  run(kernel(
          2, "",
          std::string("  mov.u32 %c1, 1;\n  cp.reduce.async.bulk.tensor.2d.global.shared::cta.") +
              op + ".tile.bulk_group [%map, {%c0, %c1}], [%s];\n"),
      map, {0, 0});
  for (size_t i = 0; i < data.size(); ++i) {
    const bool touched = i >= 8 && i < 24;
    EXPECT_EQ(data[i], touched ? want(before[i], before[i - 8]) : before[i]) << i;
  }
}

TEST(Tensor, Reductions) {
  reduce<uint32_t>("u32", CU_TENSOR_MAP_DATA_TYPE_UINT32, "add",
                   [](auto a, auto b) { return a + b; });
  reduce<uint32_t>("u32", CU_TENSOR_MAP_DATA_TYPE_UINT32, "xor",
                   [](auto a, auto b) { return a ^ b; });
  reduce<int32_t>("s32", CU_TENSOR_MAP_DATA_TYPE_INT32, "min",
                  [](auto a, auto b) { return std::min(a, b); });
  reduce<uint64_t>("u64", CU_TENSOR_MAP_DATA_TYPE_UINT64, "max",
                   [](auto a, auto b) { return std::max(a, b); });
  reduce<float>("f32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, "add",
                [](auto a, auto b) { return a + b; });
  reduce<double>("f64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64, "add",
                 [](auto a, auto b) { return a + b; });
}

TEST(Tensor, KernelsChangeMaps) {
  const auto data = counting<uint32_t>(16 * 8), other = counting<uint32_t>(32 * 8);
  TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT32, {16, 8}, {4, 2});
  const std::string change =
      "  mov.u64 %by, " + std::to_string(reinterpret_cast<uint64_t>(other.data())) +
      ";\n  tensormap.replace.tile.global_address.global.b1024.b64 [%map], %by;\n"
      "  tensormap.replace.tile.global_dim.global.b1024.b32 [%map], 0, 32;\n"
      "  mov.u64 %by, 128;\n"
      "  tensormap.replace.tile.global_stride.global.b1024.b64 [%map], 0, %by;\n"
      "  tensormap.replace.tile.box_dim.global.b1024.b32 [%map], 1, 2;\n"
      "  fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n";
  const auto got = run(kernel(2, change, ""), map, {28, 3});
  for (uint32_t y = 0; y < 2; ++y) {
    uint32_t v;
    std::memcpy(&v, &got[16 * y], 4);
    EXPECT_EQ(v, other[(3 + y) * 32 + 28]);
  }
}

TEST(Tensor, WhatIsNoMapIsAFault) {
  const auto data = counting<uint32_t>(64);
  std::string fault;
  TensorMap map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT32, {8, 8}, {4, 2});
  map.magic = 0;
  run(kernel(2, "", ""), map, {0, 0}, &fault);
  EXPECT_NE(fault.find("no tensor map"), std::string::npos) << fault;
  map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT32, {8, 8, 8}, {256, 256, 256});
  run(kernel(3, "", ""), map, {0, 0, 0}, &fault);
  EXPECT_NE(fault.find("no tensor map"), std::string::npos) << fault;
  map = map_of(data.data(), CU_TENSOR_MAP_DATA_TYPE_UINT32, {8, 8}, {4, 2});
  run(kernel(1, "", ""), map, {0}, &fault);  // of another rank
  EXPECT_NE(fault.find("no tensor map"), std::string::npos) << fault;
}

}  // namespace
}  // namespace vgpu::softgpu
