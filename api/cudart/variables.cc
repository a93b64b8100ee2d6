// Declarations of variables in PTX, and sections of cubins that hold some.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/variables.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>
#include <string>

namespace vgpu::cudart {
namespace {

uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kUnknownBytes : sum;
}

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kUnknownBytes : product;
}

// Words of a text: names and numbers with their letters, directives (".v4"), single characters.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) { next(); }
  std::string_view now() const { return now_; }  // empty: the end
  bool is(char c) const { return now_.size() == 1 && now_[0] == c; }
  void next() {
    skip_space();
    const size_t begin = at_;
    if (at_ == text_.size()) {
      now_ = {};
      return;
    }
    const char first = text_[at_++];
    if (first == '"') {
      while (at_ < text_.size() && text_[at_++] != '"') {
      }
    } else if (in_word(first)) {
      // A directive ends at the next dot.
      while (at_ < text_.size() && in_word(text_[at_]) && !(first == '.' && text_[at_] == '.'))
        ++at_;
    }
    now_ = text_.substr(begin, at_ - begin);
  }

 private:
  static bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '$' ||
           c == '%';
  }
  bool starts(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  void skip_past(std::string_view end) {
    const size_t found = text_.find(end, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }
  void skip_space() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else if (starts("//")) {
        skip_past("\n");
      } else if (starts("/*")) {
        at_ += 2;
        skip_past("*/");
      } else {
        return;
      }
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::string_view now_;
};

// 12, 0x1f, 017, each also with a U behind.
uint64_t number(std::string_view word) {
  if (!word.empty() && (word.back() == 'U' || word.back() == 'u')) word.remove_suffix(1);
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0b") || word.starts_with("0B")) {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word[0] == '0') {
    base = 8;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  return error == std::errc() && end == word.data() + word.size() ? value : kUnknownBytes;
}

// Of .u32, .f16x2 and the like; 0: it is no type.
uint64_t type_bytes(std::string_view word) {
  if (word.empty()) return 0;
  word.remove_prefix(1);
  uint64_t lanes = 1;
  if (word.ends_with("x2") || word.ends_with("x4")) {
    lanes = static_cast<uint64_t>(word.back() - '0');
    word.remove_suffix(2);
  }
  if (word.starts_with("bf")) word.remove_prefix(1);
  if (word.size() < 2 || std::string_view("bsuf").find(word[0]) == std::string_view::npos) return 0;
  const uint64_t bits = number(word.substr(1));
  return bits > 128 || bits % 8 != 0 ? 0 : lanes * bits / 8;
}

// Values of an initialiser, up to what ends the declaration.
uint64_t skip_values(Words* words) {
  uint64_t values = 1;
  for (int depth = 0; !words->now().empty() && !words->is(';'); words->next()) {
    if (words->is('{') || words->is('(')) ++depth;
    if (words->is('}') || words->is(')')) --depth;
    if (words->is(',') && depth == 0) break;
    if (words->is(',')) ++values;
  }
  return values;
}

// name[2][3] = …: how many elements. Stands at the name.
uint64_t elements(Words* words) {
  uint64_t count = 1;
  bool open = false;
  words->next();
  while (words->is('[')) {
    words->next();
    if (words->is(']')) {
      open = true;
    } else {
      count = times(count, number(words->now()));
      words->next();
      if (!words->is(']')) return kUnknownBytes;
    }
    words->next();
  }
  if (!words->is('=')) return open ? 0 : count;
  words->next();
  const uint64_t values = skip_values(words);
  return open ? std::max(values, count) : count;
}

// Behind what there is already, as a driver would place it.
uint64_t place(uint64_t total, uint64_t bytes, uint64_t align) {
  const uint64_t step = std::max(align, kVariableAlignment);
  if (step > kUnknownBytes / 2) return kUnknownBytes;
  const uint64_t at = plus(total, step - 1);
  return at == kUnknownBytes ? at : plus(at - at % step, std::max<uint64_t>(bytes, 1));
}

// Stands at the state space. `total`: of what comes before; with it.
uint64_t declaration(Words* words, uint64_t total) {
  uint64_t unit = 0, lanes = 1, align = 1;
  for (words->next(); words->now().starts_with('.'); words->next()) {
    const std::string_view word = words->now();
    if (word == ".align") {
      words->next();  // ".align 16.b8" is written, too
      const size_t end = std::min(words->now().find('.'), words->now().size());
      align = std::max<uint64_t>(number(words->now().substr(0, end)), 1);
      if (const uint64_t bytes = type_bytes(words->now().substr(end)); bytes != 0) unit = bytes;
    } else if (word == ".v2" || word == ".v4") {
      lanes = word == ".v2" ? 2 : 4;
    } else if (word == ".attribute") {
      while (!words->now().empty() && !words->is(')')) words->next();
    } else if (const uint64_t bytes = type_bytes(word); bytes != 0) {
      unit = bytes;
    }
  }
  for (;;) {
    total = place(total, times(elements(words), std::max<uint64_t>(unit, 1) * lanes), align);
    if (!words->is(',')) return total;
    words->next();
  }
}

// What is said last of who sees a name counts.
bool is_other_linkage(std::string_view word) {
  return word == ".visible" || word == ".weak" || word == ".common";
}

}  // namespace

uint64_t ptx_variable_bytes(std::string_view text) {
  uint64_t total = 0;
  bool external = false, pointed_to = false;
  for (Words words(text); !words.now().empty();) {
    const std::string_view word = words.now();
    if ((word == ".global" || word == ".const") && !pointed_to) {
      const uint64_t with = declaration(&words, total);
      if (!external) total = with;
      external = false;
      continue;  // what ends it may begin something else
    }
    if (word == ".extern") external = true;
    if (words.is(';') || words.is('{') || words.is('}') || is_other_linkage(word)) external = false;
    pointed_to = word == ".ptr";
    words.next();
  }
  return total;
}

uint64_t cubin_variable_bytes(std::string_view cubin) {
  Elf64_Ehdr header;
  if (cubin.size() < sizeof(header)) return 0;
  std::memcpy(&header, cubin.data(), sizeof(header));
  const auto section = [&](uint64_t number, Elf64_Shdr* out) {
    const uint64_t at = plus(header.e_shoff, number * sizeof(*out));
    if (header.e_shentsize != sizeof(*out) || at > cubin.size() ||
        cubin.size() - at < sizeof(*out)) {
      return false;
    }
    std::memcpy(out, cubin.data() + at, sizeof(*out));
    return true;
  };
  Elf64_Shdr names, each;
  if (!section(header.e_shstrndx, &names) || names.sh_offset > cubin.size()) return 0;
  const std::string_view strings = cubin.substr(names.sh_offset, names.sh_size);
  uint64_t total = 0;
  for (uint32_t i = 0; i < header.e_shnum && section(i, &each); ++i) {
    if (each.sh_name >= strings.size()) continue;
    const std::string_view name = strings.substr(each.sh_name);
    if (name.starts_with(".nv.global") || name.starts_with(".nv.constant3"))
      total = plus(total, each.sh_size);
  }
  return total;
}

uint64_t variable_bytes(const std::vector<Image>& images, uint32_t capability) {
  const Image* const best = best_ptx(images, capability);
  uint64_t of_texts = 0;
  std::map<uint32_t, uint64_t> of_cubins;
  std::string room;
  std::string_view code;
  for (const Image& image : images) {
    const bool text = image.kind == Image::Kind::kPtx;
    // Files of a program that are linked at load stand side by side, all for one capability.
    const bool wanted = text ? best != nullptr && image.arch == best->arch
                             : image.kind == Image::Kind::kCubin && image.arch <= capability;
    if (!wanted) continue;
    if (image.text_bytes > kTextBytesMax) return kUnknownBytes;
    if (!unpacked_code(image, &room, &code)) continue;  // damaged: nobody can load that
    if (text) {
      of_texts = plus(of_texts, ptx_variable_bytes(code));
    } else {
      uint64_t& sum = of_cubins[image.arch];
      sum = plus(sum, cubin_variable_bytes(code));
    }
  }
  for (const auto& [arch, bytes] : of_cubins) {
    if (arch == 0 || arch / 10 == capability / 10) of_texts = std::max(of_texts, bytes);
  }
  return of_texts;
}

}  // namespace vgpu::cudart
