// The parser's tokens and the module level.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/ptx/parser.h"

#include <cstdlib>

namespace vgpu::softgpu::ptx {

bool parse_type(const std::string& t, Type* type) {
  static const std::map<std::string, Type> kTypes = {
      {"b8", {'b', 8}},     {"b16", {'b', 16}},   {"b32", {'b', 32}},  {"b64", {'b', 64}},
      {"b128", {'b', 128}}, {"u8", {'u', 8}},     {"u16", {'u', 16}},  {"u32", {'u', 32}},
      {"u64", {'u', 64}},   {"s8", {'s', 8}},     {"s16", {'s', 16}},  {"s32", {'s', 32}},
      {"s64", {'s', 64}},   {"f16", {'f', 16}},   {"f32", {'f', 32}},  {"f64", {'f', 64}},
      {"pred", {'p', 1}},   {"f16x2", {'h', 32}}, {"bf16", {'g', 16}}, {"bf16x2", {'g', 32}},
      {"s16x2", {'S', 32}}, {"u16x2", {'U', 32}}, {"f32x2", {'F', 64}}};
  auto it = kTypes.find(t);
  if (it == kTypes.end()) return false;
  *type = it->second;
  return true;
}

Type Type::element() const {
  if (!is_pair()) return *this;
  const char of = kind == 'h' || kind == 'F' ? 'f' : kind == 'S' ? 's' : kind == 'U' ? 'u' : kind;
  return {of, static_cast<uint8_t>(bits / 2)};
}

bool Instruction::has(const char* modifier) const {
  for (const std::string& m : modifiers) {
    if (m == modifier) return true;
  }
  return false;
}

bool Instruction::type_from_end(int n, Type* type) const {
  for (auto it = modifiers.rbegin(); it != modifiers.rend(); ++it) {
    if (parse_type(*it, type) && n-- == 0) return true;
  }
  return false;
}

bool parse_module(std::string_view source, Module* module, Diagnostic* error) {
  std::vector<Token> tokens;
  if (!tokenize(source, &tokens, error)) return false;
  return Parser(source, std::move(tokens), module).run(error);
}

bool Parser::run(Diagnostic* error) {
  while (!failed_ && peek().kind != Token::Kind::kEnd) module_item();
  if (!failed_ && module_->version == 0) fail("no .version: this is not PTX");
  if (failed_) *error = error_;
  return !failed_;
}

const Token& Parser::peek(size_t ahead) const {
  const size_t i = at_ + ahead;
  return i < tokens_.size() ? tokens_[i] : tokens_.back();
}

Token Parser::take() {
  const Token token = peek();
  if (!failed_ && at_ + 1 < tokens_.size()) ++at_;
  return token;
}

size_t Parser::place() const {
  const Token& token = peek();
  if (token.kind == Token::Kind::kEnd) return source_.size();
  return static_cast<size_t>(token.text.data() - source_.data());
}

bool Parser::accept(std::string_view text) {
  if (!is(text)) return false;
  take();
  return true;
}

void Parser::expect(std::string_view text) {
  if (!accept(text))
    fail("expected '" + std::string(text) + "', found '" + std::string(peek().text) + "'");
}

void Parser::fail(const std::string& text) { fail_at(peek(), text); }

void Parser::fail_at(const Token& token, const std::string& text) {
  if (failed_) return;
  failed_ = true;
  error_ = {token.line, token.column, text};
}

std::string Parser::word() {
  if (peek().kind != Token::Kind::kWord) {
    fail("expected a name, found '" + std::string(peek().text) + "'");
    return {};
  }
  return std::string(take().text);
}

int64_t Parser::integer() {
  const bool negative = accept("-");
  if (peek().kind != Token::Kind::kNumber) {
    fail("expected a number, found '" + std::string(peek().text) + "'");
    return 0;
  }
  const std::string text(take().text);
  const bool binary = text.size() > 2 && (text[1] == 'b' || text[1] == 'B');
  const uint64_t value = binary ? std::strtoull(text.c_str() + 2, nullptr, 2)
                                : std::strtoull(text.c_str(), nullptr, 0);
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

void Parser::skip_past(std::string_view text) {
  while (!failed_ && peek().kind != Token::Kind::kEnd && !is(text)) take();
  expect(text);
}

// .version 9.0 / .target sm_75, texmode_independent / .address_size 64
void Parser::header_directive() {
  const std::string name = word();
  if (name == ".version") {
    const std::string number(take().text);
    const size_t dot = number.find('.');
    module_->version = std::atoi(number.c_str()) * 10;
    if (dot != std::string::npos) module_->version += std::atoi(number.c_str() + dot + 1);
  } else if (name == ".target") {
    do {
      const std::string target = word();
      if (target.rfind("sm_", 0) == 0) module_->target = std::atoi(target.c_str() + 3);
    } while (accept(","));
  } else if (integer() != 64) {
    fail("only 64-bit addresses are supported");
  }
}

// .section .debug_info { … }: tolerated and skipped.
void Parser::section() {
  take();
  word();
  expect("{");
  skip_past("}");
}

// .alias a, b;
void Parser::alias() {
  take();
  const std::string name = word();
  expect(",");
  module_->aliases[name] = word();
  expect(";");
}

void Parser::module_item() {
  if (is(".version") || is(".target") || is(".address_size")) return header_directive();
  if (is(".file")) {
    take();
    integer();
    take();
    while (accept(",")) integer();
    return;
  }
  if (is(".section")) return section();
  if (is(".alias")) return alias();
  if (is(".pragma")) return skip_past(";");
  if (accept(";")) return;
  linkage_ = Linkage::kLocal;
  for (;;) {
    if (accept(".extern"))
      linkage_ = Linkage::kExternal;
    else if (accept(".visible"))
      linkage_ = Linkage::kVisible;
    else if (accept(".weak"))
      linkage_ = Linkage::kWeak;
    else if (accept(".common"))
      linkage_ = Linkage::kCommon;
    else
      break;
  }
  const bool external = linkage_ == Linkage::kExternal;
  if (is(".entry") || is(".func")) return function(take().text == ".entry");
  if (is(".global") || is(".const") || is(".shared")) return module_variable(external);
  fail("'" + std::string(peek().text) + "' is no directive that we know");
}

// A definition says more than the declarations around it.
void Parser::note_linkage(const std::string& name) {
  const auto [known, is_new] = module_->linkage.emplace(name, linkage_);
  if (!is_new && linkage_ != Linkage::kExternal) known->second = linkage_;
}

void Parser::module_variable(bool external) {
  const std::string_view space_word = take().text;
  const Space space = space_word == ".shared"  ? Space::kShared
                      : space_word == ".const" ? Space::kConst
                                               : Space::kGlobal;
  bool managed = false;
  while (is(".attribute")) {
    take();
    expect("(");
    managed = managed || is(".managed");
    skip_past(")");
  }
  const size_t type_at = at_;
  Variable variable = variable_declaration(space);
  if (failed_) return;
  note_linkage(variable.name);
  if (space == Space::kShared) {
    if (!variable.dynamic) {
      variable.external = external;
      place_variable(&variable, &module_->shared_bytes, kModuleSharedBytesMax);
    }
    module_->variables[variable.name] = variable;
    return expect(";");
  }
  GlobalVar global;
  global.name = variable.name;
  global.bytes = variable.bytes;
  global.align = variable.align;
  global.constant = space == Space::kConst;
  global.external = external;
  global.managed = managed;
  if (accept("=")) {
    Type type;
    for (size_t i = type_at; i < at_; ++i) {
      if (tokens_[i].text.size() > 1 && parse_type(std::string(tokens_[i].text.substr(1)), &type))
        break;
    }
    initializer(type, &global);
    if (global.bytes == 0)
      global.bytes = global.init.size();  // size from the initialiser: name[] = {…}
  }
  module_->variables[variable.name] = variable;
  module_->globals.push_back(std::move(global));
  expect(";");
}

}  // namespace vgpu::softgpu::ptx
