// The digest: RFC 1319's vectors, RFC 2104's construction, and that everything it names enters it.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/validity.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

#include "tests/unit/api/fake_host.h"

namespace vgpu::cudart {
namespace {

using Digest = std::array<uint64_t, 2>;

std::string hex(const uint8_t (&bytes)[16]) {
  std::string text;
  for (uint8_t b : bytes) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

std::string md2_hex(std::string_view text) {
  uint8_t out[16];
  md2(text, out);
  return hex(out);
}

TEST(Validity, Md2IsThatOfRfc1319) {
  EXPECT_EQ(md2_hex(""), "8350e5a3e24c153df2275c9f80692773");
  EXPECT_EQ(md2_hex("a"), "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  EXPECT_EQ(md2_hex("abc"), "da853b0d3f88d99b30283a69e6ded6bb");
  EXPECT_EQ(md2_hex("message digest"), "ab4f496bfb2a530b219ff33031fe06b0");
  EXPECT_EQ(md2_hex("abcdefghijklmnopqrstuvwxyz"), "4e8ddff3650292ab5a4108c3aa47940b");
  EXPECT_EQ(md2_hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
            "da33def2a42df13975352846c30338cd");
  EXPECT_EQ(
      md2_hex("1234567890123456789012345678901234567890123456789012345678901234567890123456789"
              "0"),
      "d5976f79d83d3a0dc9806c3c66f3efd8");
}

TEST(Validity, HmacIsThatOfRfc2104) {
  uint8_t key[16], out[16];
  std::string inner, outer;
  for (int i = 0; i < 16; ++i) {
    key[i] = static_cast<uint8_t>(i * 17);
    inner += static_cast<char>(key[i] ^ 0x36);
    outer += static_cast<char>(key[i] ^ 0x5c);
  }
  hmac_md2(key, "what do ya want for nothing?", out);
  uint8_t digest[16];
  md2(inner + "what do ya want for nothing?", digest);
  outer.append(reinterpret_cast<const char*>(digest), sizeof digest);
  EXPECT_EQ(hex(out), md2_hex(outer));
}

#if VGPU_CUDART_VALIDITY

Digest digest(const ValidityTables& tables, uint32_t version = 13002, uint64_t seconds = 1000) {
  Digest out = {};
  EXPECT_EQ(validity_digest(tables, version, seconds, out.data()), CUDA_SUCCESS);
  return out;
}

TEST(Validity, FirstTwoGenerationsAreConstants) {
  test::FakeHost::install();
  EXPECT_EQ(digest({}, 13000), (Digest{0x3341181C03CB675Cull, 0x8ED383AA1F4CD1E8ull}));
  EXPECT_EQ(digest({}, 13001), (Digest{0x1841181C03CB675Cull, 0x8ED383AA1F4CD1E8ull}));
}

TEST(Validity, EverythingThatIsNamedEntersIt) {
  auto& host = test::FakeHost::install();
  int a = 0, b = 0, c = 0;
  const ValidityTables tables = {&a, &b, &c};
  const Digest base = digest(tables);
  EXPECT_EQ(digest(tables), base) << "the same twice";
  EXPECT_NE(digest({&b, &b, &c}), base);
  EXPECT_NE(digest({&a, &a, &c}), base);
  EXPECT_NE(digest({&a, &b, &a}), base);
  EXPECT_NE(digest(tables, 13012), base);
  EXPECT_NE(digest(tables, 13002, 1001), base);
  host.version = 12090;
  EXPECT_NE(digest(tables), base);
  host.version = 13000;
  host.bus = 4;
  EXPECT_NE(digest(tables), base);
  host.bus = 3;
  host.uuid_byte = 8;
  EXPECT_NE(digest(tables), base);
  host.uuid_byte = 7;
  host.devices = 2;
  EXPECT_NE(digest(tables), base);
  host.devices = 1;
  EXPECT_EQ(digest(tables), base);
  Digest other = base;
  std::thread([&] { other = digest(tables); }).join();
  EXPECT_NE(other, base) << "the calling thread";
}

#else

TEST(Validity, IsRefusedWhenBuiltWithout) {
  uint64_t out[2];
  EXPECT_EQ(validity_digest({}, 13002, 0, out), CUDA_ERROR_NOT_SUPPORTED);
}

#endif

}  // namespace
}  // namespace vgpu::cudart
