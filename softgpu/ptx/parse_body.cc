// Statements of a function: declarations, labels, instructions.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "softgpu/ptx/operand_counts.h"
#include "softgpu/ptx/parser.h"

namespace vgpu::softgpu::ptx {
namespace {

constexpr int kRegistersMax = 1 << 20;

bool is_special(const std::string& name) {
  static const char* const kPrefixes[] = {
      "%tid",        "%ntid",       "%ctaid",         "%nctaid",       "%laneid",
      "%lanemask",   "%warpid",     "%nwarpid",       "%smid",         "%nsmid",
      "%gridid",     "%clock",      "%globaltimer",   "%envreg",       "%dynamic_smem",
      "%total_smem", "%cluster",    "%ncluster",      "%is_explicit",  "%pm",
      "%aggr_smem",  "%nclusterid", "%reserved_smem", "%current_graph"};
  for (const char* prefix : kPrefixes) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  return name == "WARP_SZ";
}

}  // namespace

int Parser::find_register(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto it = scope->find(name);
    if (it != scope->end()) return it->second;
  }
  return -1;
}

std::string Parser::find_variable(const std::string& name) const {
  for (auto scope = variable_scopes_.rbegin(); scope != variable_scopes_.rend(); ++scope) {
    auto it = scope->find(name);
    if (it != scope->end()) return it->second;
  }
  return name;
}

// Inlined assembler repeats its labels, each in a scope of its own.
void Parser::label(const std::string& name) {
  std::string unique = name;
  if (function_->labels.count(name) != 0) {
    if (label_scopes_.size() == 1 || label_scopes_.back().names.count(name) != 0)
      return fail("label '" + name + "' is there twice");
    unique += "$" + std::to_string(function_->labels.size());
    label_scopes_.back().names[name] = unique;
  }
  function_->labels[unique] = static_cast<int>(function_->body.size());
}

void Parser::close_scope() {
  const LabelScope& scope = label_scopes_.back();
  if (!scope.names.empty()) {
    for (size_t i = scope.begin; i < function_->body.size(); ++i) {
      Instruction& in = function_->body[i];
      if (in.opcode != "bra" || in.operands.empty()) continue;
      const auto renamed = scope.names.find(in.operands[0].symbol);
      if (renamed != scope.names.end()) in.operands[0].symbol = renamed->second;
    }
  }
  scopes_.pop_back();
  variable_scopes_.pop_back();
  label_scopes_.pop_back();
}

void Parser::body() {
  expect("{");
  int depth = 1;
  scopes_.assign(1, {});
  variable_scopes_.assign(1, {});
  label_scopes_.assign(1, {});
  carry_ = -1;
  for (const auto* list : {&function_->params, &function_->returns}) {
    for (const Variable& v : *list) {  // parameters of the old .reg form are registers
      if (v.space != Space::kReg) continue;
      scopes_.back()[v.name] = static_cast<int>(function_->registers.size());
      function_->registers.push_back({v.name, {'b', static_cast<uint8_t>(v.bytes * 8)}});
    }
  }
  while (!failed_ && depth > 0) {
    if (accept("{")) {
      ++depth;
      scopes_.push_back({});
      variable_scopes_.push_back({});
      label_scopes_.push_back({function_->body.size(), {}});
    } else if (accept("}")) {
      --depth;
      close_scope();
    } else if (peek().kind == Token::Kind::kEnd) {
      fail("function without its closing brace");
    } else {
      statement();
    }
  }
}

void Parser::statement() {
  if (is(".reg")) return register_declaration();
  if (is(".local") || is(".shared") || is(".param")) {
    const std::string_view space = take().text;
    return local_variable(space == ".local"    ? Space::kLocal
                          : space == ".shared" ? Space::kShared
                                               : Space::kParam);
  }
  if (is(".loc")) {  // .loc file line column [, function_name label [+ n], inlined_at file line
                     // column]
    take();
    for (int i = 0; i < 3; ++i) integer();
    while (accept(",")) {
      word();
      if (peek().kind == Token::Kind::kWord) word();
      if (accept("+")) integer();
      while (peek().kind == Token::Kind::kNumber) integer();
    }
    return;
  }
  if (is(".pragma")) return skip_past(";");
  if (peek().kind == Token::Kind::kWord && peek(1).text == ":") {
    const std::string label = word();
    take();
    if (is(".branchtargets") || is(".calltargets")) {
      take();
      do function_->branch_targets[label].push_back(word());
      while (accept(","));
      return expect(";");
    }
    if (is(".callprototype")) return prototype(label);
    return this->label(label);
  }
  if (accept(";")) return;
  instruction();
}

// label: .callprototype (returns) _ (params) [.noreturn];
void Parser::prototype(const std::string& label) {
  take();
  Prototype p;
  uint32_t ignored = 0;
  if (is("(")) p.returns = parameter_list(&ignored);
  word();
  if (is("(")) p.params = parameter_list(&ignored);
  while (peek().kind == Token::Kind::kWord) take();  // .noreturn, .abi_preserve …
  function_->prototypes[label] = std::move(p);
  expect(";");
}

// .reg .b32 %r<12>, %x;
void Parser::register_declaration() {
  take();
  Type type;
  while (!failed_ && peek().kind == Token::Kind::kWord && peek().text[0] == '.') {
    const std::string w = word().substr(1);
    if (!parse_type(w, &type)) fail("'." + w + "' is no type of a register");
  }
  do {
    const std::string name = word();
    int64_t count = -1;
    if (accept("<")) {
      count = integer();
      expect(">");
    }
    if (count > kRegistersMax || function_->registers.size() > kRegistersMax)
      return fail("too many registers");
    for (int64_t i = 0; i < (count < 0 ? 1 : count); ++i) {
      const std::string full = count < 0 ? name : name + std::to_string(i);
      scopes_.back()[full] = static_cast<int>(function_->registers.size());
      function_->registers.push_back({full, type});
    }
  } while (accept(","));
  expect(";");
}

void Parser::local_variable(Space space) {
  const DeclaredType declared = declared_type();
  do {
    Variable v = variable_declaration(space, declared);
    if (failed_) return;
    if (!v.dynamic && space == Space::kShared)
      place_variable(&v, &module_->shared_bytes, kModuleSharedBytesMax);
    if (!v.dynamic && space != Space::kShared)
      place_variable(&v, &function_->local_bytes, kLocalBytesMax);
    if (space == Space::kParam)
      v.space = Space::kLocal;  // argument areas of calls live in the thread's own memory
    if (function_->variables.count(v.name) != 0) {
      const std::string name = v.name;
      v.name += "$" + std::to_string(function_->variables.size());
      variable_scopes_.back()[name] = v.name;
    }
    function_->variables[v.name] = v;
    if (accept("=")) fail("initialised variables inside functions are not supported");
  } while (accept(","));
  expect(";");
}

void Parser::instruction() {
  Instruction in;
  in.line = peek().line;
  if (accept("@")) {
    in.guard_negated = accept("!");
    const std::string name = word();
    in.guard = find_register(name);
    if (in.guard < 0) return fail("unknown predicate '" + name + "'");
  }
  const Token at = peek();
  const std::string text = word();
  if (failed_) return;
  size_t dot = text.find('.');
  in.opcode = text.substr(0, dot);
  in.column = at.column;
  if (of_one_architecture(in.opcode))
    return fail_at(at, "'" + text + "' is for one architecture alone, which this device is not");
  if (!is_opcode(in.opcode)) return fail_at(at, "'" + text + "' is no instruction");
  while (dot != std::string::npos) {
    const size_t next = text.find('.', dot + 1);
    in.modifiers.push_back(text.substr(dot + 1, next == std::string::npos ? next : next - dot - 1));
    dot = next;
  }
  may_subtract_ = in.opcode == "vmad";
  if (in.opcode == "call") {
    call_operands(&in);
  } else if (!is(";")) {
    do in.operands.push_back(operand());
    while (accept(","));
  }
  expect(";");
  if (in.operands.size() < least_operands(in.opcode))
    return fail_at(at, "'" + text + "' has too few operands");
  name_carry(&in);
  function_->body.push_back(std::move(in));
}

// The carry flag becomes a predicate register of the function, so that the analyses see who writes
// and who reads it: the second destination of .cc forms, the last operand of addc, subc and madc.
void Parser::name_carry(Instruction* in) {
  const bool writes = in->has("cc") && !in->operands.empty();
  const bool reads = in->opcode == "addc" || in->opcode == "subc" || in->opcode == "madc";
  if (!writes && !reads) return;
  if (carry_ < 0) {
    carry_ = static_cast<int>(function_->registers.size());
    function_->registers.push_back({"%carry", {'p', 1}});
  }
  if (writes) in->operands[0].second = carry_;
  if (!reads) return;
  Operand flag;
  flag.kind = Operand::Kind::kRegister;
  flag.reg = carry_;
  in->operands.push_back(flag);
}

// call (ret), name, (args), prototype;  operands: [vector of returns] [name] [vector of arguments]
// [prototype]
void Parser::call_operands(Instruction* in) {
  auto list = [&] {
    Operand v;
    v.kind = Operand::Kind::kVector;
    if (!accept("(")) return v;
    while (!failed_ && !is(")")) {
      v.elements.push_back(operand());
      if (!accept(",")) break;
    }
    expect(")");
    return v;
  };
  in->operands.push_back(list());
  if (!in->operands[0].elements.empty()) expect(",");
  in->operands.push_back(operand());
  accept(",");
  in->operands.push_back(list());
  if (accept(",")) in->operands.push_back(operand());
}

Operand Parser::operand() {
  Operand o;
  if (is("[")) return address_operand();
  if (accept("{")) {
    o.kind = Operand::Kind::kVector;
    do {
      if (is("{")) return fail("a vector inside of a vector"), o;
      o.elements.push_back(operand());
    } while (accept(","));
    expect("}");
    second_destination(&o);
    return o;
  }
  if (accept("!")) {
    if (is("!") || is("{")) return fail("'!' needs a predicate"), o;
    o = operand();
    o.negated = true;
    return o;
  }
  if (may_subtract_ && is("-") && peek(1).kind == Token::Kind::kWord) {
    take();
    may_subtract_ = false;  // one minus an operand
    o = operand();
    may_subtract_ = true;
    o.negated = true;
    return o;
  }
  if (is("-") || peek().kind == Token::Kind::kNumber) return number_operand(accept("-"));
  const std::string name = word();
  if (failed_) return o;
  if (name == "_") {
    o.kind = Operand::Kind::kSink;
  } else if ((o.reg = find_register(name)) >= 0) {
    o.kind = Operand::Kind::kRegister;
  } else if (size_t dot = name.find('.', 1);
             dot != std::string::npos && (o.reg = find_register(name.substr(0, dot))) >= 0) {
    o.kind = Operand::Kind::kRegister;
    o.selector = name.substr(dot + 1);
  } else if (is_special(name)) {
    o.kind = Operand::Kind::kSpecial;
    o.symbol = name;
  } else if (name[0] == '%') {
    fail("unknown register '" + name + "'");
  } else {
    o.kind = Operand::Kind::kSymbol;
    o.symbol = find_variable(name);
    if (accept("+")) o.integer = integer();
  }
  second_destination(&o);
  return o;
}

// |predicate
void Parser::second_destination(Operand* o) {
  if (!accept("|")) return;
  const std::string second = word();
  o->second = find_register(second);
  if (second != "_" && o->second < 0) fail("unknown register '" + second + "'");
}

// [reg], [reg+off], [symbol+off], [number], [handle, {coordinates}]
Operand Parser::address_operand() {
  Operand o;
  o.kind = Operand::Kind::kAddress;
  expect("[");
  if (in_address_) return fail("an address inside of an address"), o;
  in_address_ = true;
  if (peek().kind == Token::Kind::kNumber) {
    o.integer = integer();
  } else {
    const std::string name = word();
    o.reg = find_register(name);
    if (o.reg < 0) o.symbol = find_variable(name);
    if (o.reg < 0 && name[0] == '%') fail("unknown register '" + name + "'");
    if (accept("+"))
      o.integer = integer();
    else if (is("-"))
      o.integer = integer();
  }
  while (accept(",")) o.elements.push_back(operand());
  expect("]");
  in_address_ = false;
  return o;
}

// 12, 0x1F, 0f3F800000, 0d3FF0000000000000, 1.5
Operand Parser::number_operand(bool negative) {
  Operand o;
  const std::string text(peek().text);
  if (peek().kind != Token::Kind::kNumber) {
    fail("expected a number, found '" + text + "'");
    return o;
  }
  const bool hex_float = text.size() > 2 && text[0] == '0' &&
                         std::strchr("fFdD", text[1]) != nullptr &&
                         (text.size() == 10 || text.size() == 18);
  const bool is_hex = text.size() > 2 && (text[1] == 'x' || text[1] == 'X');
  if (hex_float) {
    take();
    o.kind = Operand::Kind::kFloat;
    o.is_double = text[1] == 'd' || text[1] == 'D';
    o.float_bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    if (negative) o.float_bits ^= o.is_double ? 1ull << 63 : 1ull << 31;
  } else if (!is_hex &&
             (text.find('.') != std::string::npos || text.find('e') != std::string::npos)) {
    take();
    o.kind = Operand::Kind::kFloat;
    o.is_double = true;
    const double value =
        negative ? -std::strtod(text.c_str(), nullptr) : std::strtod(text.c_str(), nullptr);
    std::memcpy(&o.float_bits, &value, sizeof value);
  } else {
    o.kind = Operand::Kind::kInteger;
    o.integer = integer();
    // The smallest number is its own negative.
    if (negative) o.integer = static_cast<int64_t>(-static_cast<uint64_t>(o.integer));
  }
  return o;
}

}  // namespace vgpu::softgpu::ptx
