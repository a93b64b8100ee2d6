// Taking values out of a TOML table: the first fault stays, with its line. Private to the reading
// of vgpud.toml. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_CONFIG_TABLE_H_
#define VGPU_SERVER_CONFIG_TABLE_H_

#include <toml++/toml.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace vgpu::server {

// What all tables of one file share.
struct ConfigReport {
  std::string file;
  Status status;
  // Keeps the first fault: "file:line: text".
  void fault(const toml::source_region& where, const std::string& text);
};

class ConfigTable {
 public:
  // `what` names the table in faults, "" for the file's own. Both stay borrowed.
  ConfigTable(const toml::table& table, std::string what, ConfigReport* report)
      : table_(table), what_(std::move(what)), report_(report) {}

  // A key that is none of these is a fault.
  void allow(std::initializer_list<const char*> keys) const;
  bool has(const char* key) const { return table_.contains(key); }

  // Each leaves *value alone when the key is absent, and reports when it is of another kind.
  void take(const char* key, std::string* value) const;
  void take(const char* key, bool* value) const;
  void take(const char* key, std::optional<int64_t>* value) const;
  void take_number(const char* key, int64_t least, int64_t most, uint64_t* value) const;
  // A size in quotes: "512M".
  void take_size(const char* key, uint64_t* value) const;
  // A number from `least` to `most`, which may have decimals; *value is that times 1000, rounded.
  void take_thousandths(const char* key, double least, double most, uint64_t* value) const;
  void take_texts(const char* key, std::vector<std::string>* values) const;
  // One text, or a list of them.
  void take_text_or_texts(const char* key, std::vector<std::string>* values) const;
  // Numbers, or names that `lookup` knows.
  template <typename Id, typename Lookup>
  void take_ids(const char* key, Lookup lookup, std::vector<Id>* values) const;
  // The tables inside one: [key.NAME].
  template <typename Visit>
  void each_table(const char* key, Visit visit) const;

  void fault(const char* key, const std::string& text) const;

 private:
  const toml::node* node(const char* key) const { return table_.get(key); }
  void fault(const toml::node& at, const char* key, const std::string& text) const;

  const toml::table& table_;
  std::string what_;
  ConfigReport* report_;
};

template <typename Id, typename Lookup>
void ConfigTable::take_ids(const char* key, Lookup lookup, std::vector<Id>* values) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  const toml::array* list = found->as_array();
  if (list == nullptr) return fault(*found, key, "must be a list of numbers and names");
  for (const toml::node& each : *list) {
    const auto number = each.value_exact<int64_t>();
    const auto name = each.value_exact<std::string>();
    std::optional<Id> id;
    if (number && *number >= 0 && *number < int64_t{UINT32_MAX}) id = static_cast<Id>(*number);
    if (name) id = lookup(*name);
    if (!id) return fault(each, key, "names nobody: '" + name.value_or("that number") + "'");
    values->push_back(*id);
  }
}

template <typename Visit>
void ConfigTable::each_table(const char* key, Visit visit) const {
  const toml::node* found = node(key);
  if (found == nullptr) return;
  const toml::table* tables = found->as_table();
  if (tables == nullptr)
    return fault(*found, key, "must be tables: [" + std::string(key) + ".NAME]");
  for (const auto& [name, each] : *tables) {
    const toml::table* table = each.as_table();
    const std::string text(name.str());
    if (table == nullptr) return fault(each, key, "'" + text + "' must be a table");
    visit(text, ConfigTable(*table, std::string(key) + " '" + text + "'", report_));
  }
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_CONFIG_TABLE_H_
