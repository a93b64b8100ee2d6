// libcudart's self-test of the driver. Nothing else lives in this file; VGPU_CUDART_VALIDITY
// switches it. SPDX-License-Identifier: Apache-2.0
#include "api/cudart/validity.h"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "api/cudart/host.h"

namespace vgpu::cudart {
namespace {

// The substitution of RFC 1319, made from the digits of pi.
constexpr uint8_t kPi[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,
    243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212,
    224, 22,  103, 66,  111, 24,  138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160,
    251, 245, 142, 187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,  148, 194, 16,  137,
    11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151,
    3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198, 79,  184,
    56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,  100,
    113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246,
    28,  70,  97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249,
    206, 186, 197, 234, 38,  44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129,
    77,  82,  106, 220, 55,  200, 108, 193, 171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120,
    136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254, 59,  0,   29,  57,  242, 239, 183, 14,
    102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,  80,  180, 143, 237, 31,
    26,  219, 153, 141, 51,  159, 17,  131, 20};

void md2_block(uint8_t state[48], const uint8_t block[16]) {
  for (int i = 0; i < 16; ++i) {
    state[16 + i] = block[i];
    state[32 + i] = static_cast<uint8_t>(state[i] ^ block[i]);
  }
  uint8_t t = 0;
  for (int round = 0; round < 18; ++round) {
    for (int i = 0; i < 48; ++i) t = state[i] ^= kPi[t];
    t = static_cast<uint8_t>(t + round);
  }
}

void md2_checksum(uint8_t checksum[16], const uint8_t block[16]) {
  uint8_t last = checksum[15];
  for (int i = 0; i < 16; ++i) last = checksum[i] ^= kPi[block[i] ^ last];
}

}  // namespace

void md2(std::string_view text, uint8_t out[16]) {
  std::string padded(text);
  const size_t fill = 16 - text.size() % 16;
  padded.append(fill, static_cast<char>(fill));
  uint8_t state[48] = {}, checksum[16] = {};
  for (size_t at = 0; at < padded.size(); at += 16) {
    const auto* block = reinterpret_cast<const uint8_t*>(padded.data()) + at;
    md2_block(state, block);
    md2_checksum(checksum, block);
  }
  md2_block(state, checksum);
  std::memcpy(out, state, 16);
}

void hmac_md2(std::span<const uint8_t, 16> key, std::string_view text, uint8_t out[16]) {
  std::string inner, outer;
  for (uint8_t k : key) {
    inner.push_back(static_cast<char>(k ^ 0x36));
    outer.push_back(static_cast<char>(k ^ 0x5c));
  }
  inner.append(text);
  uint8_t digest[16];
  md2(inner, digest);
  outer.append(reinterpret_cast<const char*>(digest), sizeof digest);
  md2(outer, out);
}

#if VGPU_CUDART_VALIDITY

namespace {

template <typename T>
void append(std::string* message, T value) {
  message->append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string identity(const ValidityTables& tables, uint32_t version, uint64_t unix_seconds) {
  std::string m;
  append(&m, static_cast<uint32_t>(host().driver_version()));
  append(&m, version);
  append(&m,
         static_cast<uint32_t>(getpid()));  // asked each time: a forked child is another process
  append(&m, static_cast<uint32_t>(pthread_self()));
  append(&m, tables.runtime_interface);
  append(&m, tables.integrity_check);
  append(&m, tables.function);
  append(&m, unix_seconds);
  for (int i = 0; i < host().device_count(); ++i) {
    CUuuid uuid = {};
    int domain = 0, bus = 0, device = 0;
    host().device_identity(i, &uuid, &domain, &bus, &device);
    append(&m, uuid);
    append(&m, domain);
    append(&m, bus);
    append(&m, device);
  }
  return m;
}

}  // namespace

CUresult validity_digest(const ValidityTables& tables, uint32_t version, uint64_t unix_seconds,
                         uint64_t out[2]) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (version % 10 < 2) {  // two generations of the test are constants
    out[0] = version % 10 == 0 ? 0x3341181C03CB675Cull : 0x1841181C03CB675Cull;
    out[1] = 0x8ED383AA1F4CD1E8ull;
    return CUDA_SUCCESS;
  }
  static constexpr uint8_t kKey[16] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
                                       0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
  hmac_md2(kKey, identity(tables, version, unix_seconds), reinterpret_cast<uint8_t*>(out));
  return CUDA_SUCCESS;
}

#else

CUresult validity_digest(const ValidityTables&, uint32_t, uint64_t, uint64_t[2]) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

}  // namespace vgpu::cudart
