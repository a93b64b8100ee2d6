// Cuts PTX text into tokens.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/ptx/lexer.h"

#include <cctype>
#include <cstring>

namespace vgpu::softgpu::ptx {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 ||
         (c != 0 && std::strchr("._%$", c) != nullptr);
}
bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         (c != 0 && std::strchr("._$", c) != nullptr);
}

class Cursor {
 public:
  explicit Cursor(std::string_view source) : source_(source) {}
  bool end() const { return at_ >= source_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void advance() {
    if (source_[at_++] == '\n') {
      ++line_;
      line_start_ = at_;
    }
  }
  size_t at() const { return at_; }
  int line() const { return line_; }
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }
  std::string_view from(size_t begin) const { return source_.substr(begin, at_ - begin); }

 private:
  std::string_view source_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
};

// Skips one comment; false when it never ends.
bool skip_comment(Cursor* c) {
  if (c->peek(1) == '/') {
    while (!c->end() && c->peek() != '\n') c->advance();
    return true;
  }
  c->advance();
  c->advance();
  while (!c->end()) {
    if (c->peek() == '*' && c->peek(1) == '/') {
      c->advance();
      c->advance();
      return true;
    }
    c->advance();
  }
  return false;
}

Token::Kind read_token(Cursor* c, std::string_view* text) {
  const size_t begin = c->at();
  const char first = c->peek();
  if (first == '"') {
    c->advance();
    while (!c->end() && c->peek() != '"') c->advance();
    *text = c->from(begin + 1);
    if (!c->end()) c->advance();
    return Token::Kind::kString;
  }
  if (std::isdigit(static_cast<unsigned char>(first)) != 0) {
    while (in_word(c->peek())) c->advance();
    *text = c->from(begin);
    return Token::Kind::kNumber;
  }
  if (starts_word(first)) {
    c->advance();
    // A directive ends at the next dot: .reg.b16 is two words.
    while ((in_word(c->peek()) && !(first == '.' && c->peek() == '.')) ||
           (c->peek() == ':' && c->peek(1) == ':' &&
            std::isalnum(static_cast<unsigned char>(c->peek(2))) != 0)) {
      if (c->peek() == ':') c->advance();
      c->advance();
    }
    *text = c->from(begin);
    return Token::Kind::kWord;
  }
  c->advance();
  *text = c->from(begin);
  return Token::Kind::kPunctuation;
}

}  // namespace

bool tokenize(std::string_view source, std::vector<Token>* tokens, Diagnostic* error) {
  Cursor c(source);
  tokens->reserve(source.size() / 4);
  while (!c.end()) {
    if (std::isspace(static_cast<unsigned char>(c.peek())) != 0) {
      c.advance();
      continue;
    }
    Token token;
    token.line = c.line();
    token.column = c.column();
    if (c.peek() == '/' && (c.peek(1) == '/' || c.peek(1) == '*')) {
      if (!skip_comment(&c)) {
        *error = {token.line, token.column, "comment without an end"};
        return false;
      }
      continue;
    }
    const char first = c.peek();
    token.kind = read_token(&c, &token.text);
    if (token.kind == Token::Kind::kPunctuation &&
        (first == 0 || std::strchr("()[]{}<>,;:=+-*/!|&@~^", first) == nullptr)) {
      *error = {token.line, token.column, "unexpected character"};
      return false;
    }
    tokens->push_back(token);
  }
  Token end;
  end.line = c.line();
  end.column = c.column();
  tokens->push_back(end);
  return true;
}

}  // namespace vgpu::softgpu::ptx
