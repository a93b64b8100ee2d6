// Values out of TOML, with the line of what is wrong.
// SPDX-License-Identifier: Apache-2.0
#include "server/config_table.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"

namespace vgpu::server {

void ConfigReport::fault(const toml::source_region& where, const std::string& text) {
  if (!status.ok()) return;
  status = Status(StatusCode::kInvalidArgument,
                  file + ":" + std::to_string(where.begin.line) + ": " + text);
}

void ConfigTable::fault(const toml::node& at, const char* key, const std::string& text) const {
  report_->fault(at.source(), (what_.empty() ? "" : what_ + ": ") + "'" + key + "' " + text);
}

void ConfigTable::fault(const char* key, const std::string& text) const {
  const toml::node* found = node(key);
  fault(found != nullptr ? *found : static_cast<const toml::node&>(table_), key, text);
}

void ConfigTable::allow(std::initializer_list<const char*> keys) const {
  for (const auto& [key, value] : table_) {
    const std::string name(key.str());
    if (std::find(keys.begin(), keys.end(), name) == keys.end())
      report_->fault(key.source(),
                     (what_.empty() ? "" : what_ + ": ") + "unknown key '" + name + "'");
  }
}

void ConfigTable::take(const char* key, std::string* value) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  const auto text = found->value_exact<std::string>();
  if (!text) return fault(*found, key, "must be text in quotes");
  *value = *text;
}

void ConfigTable::take(const char* key, bool* value) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  const auto truth = found->value_exact<bool>();
  if (!truth) return fault(*found, key, "must be true or false");
  *value = *truth;
}

void ConfigTable::take(const char* key, std::optional<int64_t>* value) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  *value = found->value_exact<int64_t>();
  if (!*value) fault(*found, key, "must be a whole number");
}

void ConfigTable::take_number(const char* key, int64_t least, int64_t most, uint64_t* value) const {
  std::optional<int64_t> number;
  take(key, &number);
  if (!number) return;
  if (*number < least || *number > most)
    return fault(key, "is " + std::to_string(*number) + ", but must be from " +
                          std::to_string(least) + " to " + std::to_string(most));
  *value = static_cast<uint64_t>(*number);
}

void ConfigTable::take_size(const char* key, uint64_t* value) const {
  std::string text;
  take(key, &text);
  if (!has(key) || !report_->status.ok()) return;
  const auto bytes = parse_size(text);
  if (!bytes || *bytes == 0) return fault(key, "must be a size like \"512M\" or \"4G\"");
  *value = *bytes;
}

void ConfigTable::take_thousandths(const char* key, double least, double most,
                                   uint64_t* value) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  const auto number = found->is_number() ? found->value<double>() : std::nullopt;
  if (!number || !(*number >= least && *number <= most)) {
    char range[64];
    std::snprintf(range, sizeof(range), "must be a number from %g to %g", least, most);
    return fault(*found, key, range);
  }
  *value = static_cast<uint64_t>(std::llround(*number * 1000));
}

void ConfigTable::take_text_or_texts(const char* key, std::vector<std::string>* values) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  if (found->is_array()) return take_texts(key, values);
  const auto text = found->value_exact<std::string>();
  if (!text) return fault(*found, key, "must be text in quotes, or a list of such");
  values->push_back(*text);
}

void ConfigTable::take_texts(const char* key, std::vector<std::string>* values) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  const toml::array* list = found->as_array();
  if (list == nullptr) return fault(*found, key, "must be a list of names in quotes");
  for (const toml::node& each : *list) {
    const auto text = each.value_exact<std::string>();
    if (!text) return fault(each, key, "must be a list of names in quotes");
    values->push_back(*text);
  }
}

}  // namespace vgpu::server
