// Makes fatbin containers by hand, for cases that nvcc does not make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace vgpu::cudart::test {

// Appends entries behind a container's header and keeps its length right.
class ContainerBuilder {
 public:
  ContainerBuilder() { bytes_.resize(16); }

  ContainerBuilder& add(uint16_t kind, uint32_t arch, uint64_t flags, const std::string& payload) {
    std::string entry(64, '\0');
    std::string padded = payload;
    padded.resize((payload.size() + 7) / 8 * 8);
    put<uint16_t>(&entry, 0, kind);
    put<uint16_t>(&entry, 2, 0x0101);
    put<uint32_t>(&entry, 4, 64);
    put<uint64_t>(&entry, 8, padded.size());
    put<uint32_t>(&entry, 28, arch);
    put<uint64_t>(&entry, 40, flags);
    bytes_ += entry + padded;
    return *this;
  }

  std::string build() const {
    std::string done = bytes_;
    put<uint32_t>(&done, 0, 0xBA55ED50);
    put<uint16_t>(&done, 4, 1);
    put<uint16_t>(&done, 6, 16);
    put<uint64_t>(&done, 8, done.size() - 16);
    return done;
  }

  template <typename T>
  static void put(std::string* bytes, size_t at, T value) {
    std::memcpy(bytes->data() + at, &value, sizeof value);
  }

 private:
  std::string bytes_;
};

// As nvcc places it in .nvFatBinSegment.
struct WrapperBytes {
  uint32_t magic = 0x466243B1;
  uint32_t version = 1;
  const void* container = nullptr;
  const void* const* relocatable = nullptr;
};

inline constexpr uint16_t kPtxEntry = 1;
inline constexpr uint16_t kCubinEntry = 2;

}  // namespace vgpu::cudart::test
