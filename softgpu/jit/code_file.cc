// Packing, and distrustful unpacking.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/code_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace vgpu::softgpu {
namespace {

constexpr char kMagic[8] = {'v', 'G', 'P', 'U', 'c', 'o', 'd', '2'};
constexpr size_t kSymbolsMax = 1 << 16;

struct Head {
  char magic[8];
  uint64_t check_low, check_high;  // XXH3 of everything behind the head
};

XXH128_hash_t checksum(const char* from, size_t bytes) { return XXH3_128bits(from, bytes); }

class Writer {
 public:
  void number(uint32_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void string(const std::string& s) {
    number(static_cast<uint32_t>(s.size()));
    text_ += s;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  Reader(const char* from, size_t bytes) : at_(from), end_(from + bytes) {}
  uint32_t number() {
    uint32_t value = 0;
    if (!has(sizeof value)) return 0;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string string() {
    const uint32_t bytes = number();
    if (!has(bytes)) return "";
    std::string s(at_, bytes);
    at_ += bytes;
    return s;
  }
  bool complete() const { return !failed_ && at_ == end_; }

 private:
  bool has(size_t bytes) {
    failed_ = failed_ || static_cast<size_t>(end_ - at_) < bytes;
    return !failed_;
  }
  const char* at_;
  const char* const end_;
  bool failed_ = false;
};

}  // namespace

std::string pack_code(const std::string& key, const ObjectCode& code) {
  Writer body;
  body.string(key);
  body.number(code.save_bytes);
  body.number(code.local_bytes);
  body.number(code.shared_bytes);
  body.number(code.stack_bytes);
  body.number(code.stack_dynamic ? 1 : 0);
  body.number(static_cast<uint32_t>(code.symbols.size()));
  for (const std::string& symbol : code.symbols) body.string(symbol);
  body.string(code.bytes);
  const std::string rest = body.take();
  Head head;
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  const XXH128_hash_t check = checksum(rest.data(), rest.size());
  head.check_low = check.low64;
  head.check_high = check.high64;
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + rest;
}

bool unpack_code(const std::string& text, const std::string& key, ObjectCode* code) {
  Head head;
  if (text.size() < sizeof head) return false;
  std::memcpy(&head, text.data(), sizeof head);
  const char* const rest = text.data() + sizeof head;
  const size_t bytes = text.size() - sizeof head;
  const XXH128_hash_t check = checksum(rest, bytes);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.check_low != check.low64 ||
      head.check_high != check.high64) {
    return false;
  }
  Reader body(rest, bytes);
  if (body.string() != key) return false;
  code->save_bytes = body.number();
  code->local_bytes = body.number();
  code->shared_bytes = body.number();
  code->stack_bytes = body.number();
  code->stack_dynamic = body.number() != 0;
  const uint32_t symbols = body.number();
  if (symbols > kSymbolsMax) return false;
  code->symbols.clear();
  for (uint32_t i = 0; i < symbols; ++i) code->symbols.push_back(body.string());
  code->bytes = body.string();
  return body.complete();
}

bool is_code_name(const std::string& name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace vgpu::softgpu
