// Settings as text: sizes like 512M, integers, booleans; from a string or from the environment.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_ENV_H_
#define VGPU_BASE_ENV_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace vgpu {

// "4096", "512K", "512M", "4GiB", "1.5G", "2 TB": all units count in 1024. nullopt for anything
// else, for negative numbers and for what does not fit 64 bits.
std::optional<uint64_t> parse_size(std::string_view text);

// Decimal, or hexadecimal with 0x; the whole text must be the number.
std::optional<int64_t> parse_integer(std::string_view text);

// 1/0, true/false, yes/no, on/off, any case.
std::optional<bool> parse_bool(std::string_view text);

// The variable's text; nullopt when unset or empty. The view lives as long as the environment is
// not changed, so copy it when it is kept.
std::optional<std::string_view> env_text(const char* name);

// The variable's value, or `fallback` when it is unset, empty or not readable as such.
uint64_t env_size(const char* name, uint64_t fallback);
int64_t env_integer(const char* name, int64_t fallback);
bool env_bool(const char* name, bool fallback);

}  // namespace vgpu

#endif  // VGPU_BASE_ENV_H_
