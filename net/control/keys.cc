// Key files and known servers.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/keys.h"

#include <string.h>

#include <algorithm>

#include "base/env.h"
#include "net/control/small_file.h"
#include "protocol/limits.h"

namespace vgpu::net {
namespace {

constexpr std::string_view kZ85Marks = ".-:+=^!/*?&<>()[]{}@%$#";

std::string place_of(const protocol::Address& address) {
  return address.host + ":" + std::to_string(address.port);
}

// The key in the line of `place`; empty: there is none.
std::string find_line(std::string_view text, const std::string& place) {
  for (const std::string_view line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() >= 2 && words[0] == place && is_key(words[1])) return std::string(words[1]);
  }
  return "";
}

}  // namespace

KeyPair::~KeyPair() { ::explicit_bzero(secret_key.data(), secret_key.size()); }

bool is_key(std::string_view text) {
  return text.size() == protocol::kKeyBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  kZ85Marks.find(c) != std::string_view::npos;
         });
}

Result<KeyPair> read_key_file(const std::string& path) {
  Result<std::string> text = read_small_file(path, Trust::kSecret);
  if (!text.ok()) return text.status();
  KeyPair pair;
  for (const std::string_view line : lines_of(*text)) {
    const auto words = words_of(line);
    if (words.size() != 2 || !is_key(words[1])) continue;
    if (words[0] == "public") pair.public_key = words[1];
    if (words[0] == "secret") pair.secret_key = words[1];
  }
  ::explicit_bzero(text->data(), text->size());
  if (pair.public_key.empty() || pair.secret_key.empty()) {
    return Status(StatusCode::kInvalidArgument, path + " holds no key of vGPU");
  }
  return pair;
}

Status write_key_file(const std::string& path, const KeyPair& pair, bool replace) {
  std::string text = "# A key of vGPU. Who has this file is its owner to every server.\npublic " +
                     pair.public_key + "\nsecret " + pair.secret_key + "\n";
  Status status = write_small_file(path, text, 0600, replace);
  ::explicit_bzero(text.data(), text.size());
  return status;
}

Result<std::string> known_server_key(const protocol::Address& address) {
  if (const auto set = env_text("VGPU_SERVER_KEY")) {
    if (is_key(*set)) return std::string(*set);
    return Status(StatusCode::kInvalidArgument, "VGPU_SERVER_KEY is not a key (40 characters)");
  }
  const std::string place = place_of(address);
  for (const std::string& path : config_places(kKnownServersFile)) {
    const Result<std::string> text = read_small_file(path, Trust::kWrite);
    if (!text.ok() && text.status().code() == StatusCode::kNotFound) continue;
    if (!text.ok()) return text.status();
    if (std::string key = find_line(*text, place); !key.empty()) return key;
  }
  return Status(StatusCode::kNotFound, "the key of the server at " + place +
                                           " is not known: vgpu key trust tcp://" + place +
                                           " KEY, or set VGPU_SERVER_KEY");
}

Status remember_server(const protocol::Address& address, const std::string& key) {
  const std::string path = config_places(kKnownServersFile).front();
  const Result<UniqueFd> lock = lock_folder_of(path);
  if (!lock.ok()) return lock.status();
  const Result<std::string> text = read_small_file(path, Trust::kWrite);
  if (!text.ok() && text.status().code() != StatusCode::kNotFound) return text.status();
  const std::string place = place_of(address);
  std::string kept;
  if (text.ok()) {
    size_t at = 0;
    for (const std::string_view line : lines_of(*text)) {
      const auto words = words_of(line);
      const size_t end = std::min(text->find('\n', at), text->size());
      if (words.empty() || words[0] != place) kept += text->substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  return write_small_file(path, kept + place + " " + key + "\n", 0644, true);
}

std::string guest_key_path() {
  if (const auto set = env_text("VGPU_KEY")) return std::string(*set);
  return find_config(kGuestKeyFile, false);
}

}  // namespace vgpu::net
