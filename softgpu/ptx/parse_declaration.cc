// Variables with their initialisers, and the heads of functions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "softgpu/ptx/parser.h"

namespace vgpu::softgpu::ptx {
namespace {

constexpr uint64_t kVariableBytesMax = 1ull << 40;

}  // namespace

void Parser::place_variable(Variable* variable, uint32_t* bytes, uint64_t bytes_max) {
  const uint64_t align = variable->align;
  const uint64_t offset = (*bytes + align - 1) / align * align;
  if (variable->bytes > bytes_max || offset > bytes_max - variable->bytes)
    return fail("'" + variable->name + "' makes more than " + std::to_string(bytes_max) +
                " bytes of this state space");
  variable->offset = static_cast<uint32_t>(offset);
  *bytes = static_cast<uint32_t>(offset + variable->bytes);
}

// [.align n] [.v2|.v4] .type [.ptr [.space] [.align n]]; the state space has been read. What
// follows .ptr says what is pointed to.
Parser::DeclaredType Parser::declared_type() {
  DeclaredType declared;
  bool pointed_to = false;
  auto& [type, lanes, align] = declared;
  while (!failed_ && peek().kind == Token::Kind::kWord && peek().text[0] == '.') {
    const std::string w = word().substr(1);
    if (w == "align") {
      const auto n = static_cast<uint32_t>(integer());
      if (!pointed_to) align = n;
    } else if (w == "ptr")
      pointed_to = true;
    else if (w == "global" || w == "shared" || w == "const" || w == "local")
      continue;  // .ptr .space
    else if (w == "v2")
      lanes = 2;
    else if (w == "v4")
      lanes = 4;
    else if (!parse_type(w, &type))
      fail("'." + w + "' is no type");
  }
  return declared;
}

// name [dims], of which several may share a type.
Variable Parser::variable_declaration(Space space, const DeclaredType& declared) {
  Variable v;
  v.space = space;
  v.name = word();
  uint64_t count = 1;
  while (accept("[")) {
    if (accept("]")) {
      v.dynamic = true;
      count = 0;
      continue;
    }
    const int64_t n = integer();
    if (n < 0 || static_cast<uint64_t>(n) > kVariableBytesMax) fail("array size out of range");
    count *= static_cast<uint64_t>(n);
    if (count > kVariableBytesMax) fail("array size out of range");
    expect("]");
  }
  const uint32_t element = std::max<uint32_t>(declared.type.bytes(), 1) * declared.lanes;
  v.bytes = count * element;
  v.align = declared.align == 0 ? element : declared.align;
  if ((v.align & (v.align - 1)) != 0 || v.align > 4096) fail("alignment is no power of two");
  return v;
}

void Parser::initializer(const Type& type, GlobalVar* global) {
  uint64_t offset = 0;
  int depth = 0;
  do {
    while (accept("{")) ++depth;
    if (!is("}")) {
      initializer_value(type, offset, global);
      offset += std::max<uint32_t>(type.bytes(), 1);
    }
    while (depth > 0 && accept("}")) --depth;
  } while (!failed_ && accept(","));
  if (depth != 0) fail("initialiser without its closing brace");
}

// A number, a symbol, generic(symbol), symbol+offset, or mask(symbol) which takes one byte of an
// address.
void Parser::initializer_value(const Type& type, uint64_t offset, GlobalVar* global) {
  const uint64_t bytes = std::max<uint32_t>(type.bytes(), 1);
  if (offset + bytes > kVariableBytesMax) return fail("initialiser too long");
  global->init.resize(offset + bytes);
  if (peek().kind == Token::Kind::kWord) {
    std::string name = word();
    const bool wrapped = name == "generic";
    if (wrapped) {
      expect("(");
      name = word();
    }
    int64_t addend = 0;
    if (accept("+")) addend = integer();
    if (wrapped) expect(")");
    if (accept("+")) addend += integer();
    if (bytes != 8) return fail("an address needs a 64-bit initialiser");
    global->relocs.push_back({offset, name, addend});
    return;
  }
  const bool negative = is("-");
  if (negative) take();
  const Operand value = number_operand(negative);
  uint64_t bits =
      value.kind == Operand::Kind::kFloat ? value.float_bits : static_cast<uint64_t>(value.integer);
  if (value.kind == Operand::Kind::kFloat && value.is_double && type.is_float() &&
      type.bits == 32) {
    double d;
    std::memcpy(&d, &bits, 8);
    const float f = static_cast<float>(d);
    bits = 0;
    std::memcpy(&bits, &f, 4);
  }
  std::memcpy(global->init.data() + offset, &bits, std::min<uint64_t>(bytes, 8));
}

// (.param .type name, …): offsets by natural alignment, as the launch packs them.
std::vector<Variable> Parser::parameter_list(uint32_t* bytes) {
  std::vector<Variable> list;
  uint32_t offset = 0;
  expect("(");
  while (!failed_ && !is(")")) {
    const bool in_register = is(".reg");
    if (!accept(".param")) expect(".reg");
    Variable v = variable_declaration(in_register ? Space::kReg : Space::kParam);
    place_variable(&v, &offset, kParameterBytesMax);
    list.push_back(v);
    if (!accept(",")) break;
  }
  expect(")");
  *bytes = offset;
  return list;
}

void Parser::read_dims(uint32_t dims[3]) {
  for (int i = 0; i < 3; ++i) dims[i] = 1;
  for (int i = 0; i < 3; ++i) {
    dims[i] = static_cast<uint32_t>(integer());
    if (!accept(",")) break;
  }
}

void Parser::function_directives() {
  while (!failed_ && peek().kind == Token::Kind::kWord && peek().text[0] == '.') {
    const std::string name = word();
    if (name == ".maxntid")
      read_dims(function_->max_threads);
    else if (name == ".reqntid")
      read_dims(function_->required_threads);
    else if (name == ".minnctapersm" || name == ".maxnreg" || name == ".maxnctapersm")
      integer();
    else if (name == ".maxclusterrank")
      function_->max_cluster_blocks = static_cast<uint32_t>(integer());
    else if (name == ".reqnctapercluster")
      read_dims(function_->required_cluster);
    else if (name == ".explicitcluster")
      function_->explicit_cluster = true;
    else if (name == ".pragma")
      skip_past(";");
    else if (name != ".noreturn")
      fail("'" + name + "' is no directive of a function");
  }
}

void Parser::function(bool is_kernel) {
  Function f;
  f.is_kernel = is_kernel;
  f.line = peek().line;
  f.text_begin = place();
  uint32_t ignored = 0;
  if (!is_kernel && is("(")) f.returns = parameter_list(&ignored);
  f.name = word();
  if (is("(")) f.params = parameter_list(&f.param_bytes);
  for (Variable& p : f.params) f.variables[p.name] = p;
  for (Variable& r : f.returns) f.variables[r.name] = r;
  function_ = &f;
  function_directives();
  if (accept(";")) {
    f.is_declaration = true;
  } else {
    body();
    finish_function();
  }
  f.text_end = place();
  function_ = nullptr;
  if (failed_) return;
  note_linkage(f.name);
  auto known = module_->function_index.find(f.name);
  if (known == module_->function_index.end()) {
    module_->function_index[f.name] = static_cast<int>(module_->functions.size());
    module_->functions.push_back(std::move(f));
  } else if (module_->functions[known->second].is_declaration) {
    module_->functions[known->second] = std::move(f);  // the definition after its declaration
  } else if (!f.is_declaration) {
    fail("function '" + f.name + "' is defined twice");
  }
}

// Every branch must find its label, and every table its labels.
void Parser::finish_function() {
  const auto check = [this](const Instruction& in, const std::string& label) {
    if (function_->labels.count(label) != 0 || failed_) return;
    failed_ = true;
    error_ = {in.line, in.column, "branch to unknown label '" + label + "'"};
  };
  for (const Instruction& in : function_->body) {
    if (in.opcode == "bra") check(in, in.operands[0].symbol);
    if (in.opcode != "brx" || failed_) continue;
    const auto table = function_->branch_targets.find(in.operands[1].symbol);
    if (table == function_->branch_targets.end()) {
      failed_ = true;
      error_ = {in.line, in.column, "unknown table of labels '" + in.operands[1].symbol + "'"};
      return;
    }
    for (const std::string& label : table->second) check(in, label);
  }
}

}  // namespace vgpu::softgpu::ptx
