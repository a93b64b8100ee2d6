// Reading, watching and changing the file of authorised keys.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/authorized_keys.h"

#include <algorithm>

#include "base/log.h"
#include "net/control/keys.h"
#include "net/control/small_file.h"

namespace vgpu::net {
namespace {

constexpr char kHead[] = "# Who may attach over the network: KEY TENANT [comment]\n";

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

// The file without the lines that `drop` names; its head when there was none.
template <typename Drop>
Result<std::string> text_without(const std::string& path, Drop drop) {
  const Result<std::string> text = read_small_file(path, Trust::kWrite);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return std::string(kHead);
  if (!text.ok()) return text.status();
  std::string kept;
  size_t at = 0;
  for (const std::string_view line : lines_of(*text)) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const auto words = words_of(line);
    if (words.size() < 2 || !drop(words[0], words[1])) kept += text->substr(at, end - at) + "\n";
    at = end + 1;
  }
  return kept;
}

}  // namespace

bool is_tenant(std::string_view text) {
  return !text.empty() && text.size() <= kTenantBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::vector<AuthorizedKey> parse_authorized_keys(std::string_view text,
                                                 std::vector<std::string>* faults) {
  std::vector<AuthorizedKey> entries;
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    const bool good = words.size() >= 2 && is_key(words[0]) && is_tenant(words[1]);
    if (!good || entries.size() >= kAuthorizedKeysMax) {
      faults->push_back("line " + std::to_string(number) +
                        (good ? ": too many keys" : " is not: KEY TENANT [comment]"));
      continue;
    }
    AuthorizedKey entry{std::string(words[0]), std::string(words[1]), ""};
    for (size_t i = 2; i < words.size(); ++i) {
      entry.comment += (i == 2 ? "" : " ") + std::string(words[i]);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool AuthorizedKeys::refresh() {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) now = {};
  if (looked_ && same_file(now, seen_)) return false;
  looked_ = true;
  read();
  return true;
}

void AuthorizedKeys::read() {
  tenants_.clear();
  // What was read is what is remembered: a file that changes meanwhile is read again.
  seen_ = {};
  const Result<std::string> text = read_small_file(path_, Trust::kWrite, &seen_);
  if (!text.ok()) {
    VGPU_LOG_WARN("no key is admitted: %s", text.status().text().c_str());
    return;
  }
  std::vector<std::string> faults;
  for (AuthorizedKey& entry : parse_authorized_keys(*text, &faults)) {
    tenants_[entry.key] = std::move(entry.tenant);
  }
  for (const std::string& fault : faults) {
    VGPU_LOG_WARN("%s: %s", path_.c_str(), fault.c_str());
  }
  VGPU_LOG_INFO("%s admits %zu keys", path_.c_str(), tenants_.size());
}

const std::string* AuthorizedKeys::tenant_of(const std::string& key) const {
  const auto found = tenants_.find(key);
  return found == tenants_.end() ? nullptr : &found->second;
}

Status authorize(const std::string& path, const AuthorizedKey& entry) {
  if (!is_key(entry.key)) {
    return Status(StatusCode::kInvalidArgument, "'" + entry.key + "' is not a public key");
  }
  if (!is_tenant(entry.tenant)) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + entry.tenant + "' is not a tenant: letters, digits, '.', '_' and '-'");
  }
  if (entry.comment.find('\n') != std::string::npos) {
    return Status(StatusCode::kInvalidArgument, "a comment is one line");
  }
  const Result<UniqueFd> lock = lock_folder_of(path);
  if (!lock.ok()) return lock.status();
  Result<std::string> text =
      text_without(path, [&](std::string_view key, std::string_view) { return key == entry.key; });
  if (!text.ok()) return text.status();
  const std::string comment = entry.comment.empty() ? "" : " " + entry.comment;
  return write_small_file(path, *text + entry.key + " " + entry.tenant + comment + "\n", 0600,
                          true);
}

Status revoke(const std::string& path, const std::string& whom, size_t* removed) {
  *removed = 0;
  const Result<UniqueFd> lock = lock_folder_of(path);
  if (!lock.ok()) return lock.status();
  Result<std::string> text = text_without(path, [&](std::string_view key, std::string_view tenant) {
    const bool drop = key == whom || tenant == whom;
    *removed += drop;
    return drop;
  });
  if (!text.ok()) return text.status();
  if (*removed == 0) {
    return Status(StatusCode::kNotFound, path + " has no key or tenant '" + whom + "'");
  }
  return write_small_file(path, *text, 0600, true);
}

}  // namespace vgpu::net
