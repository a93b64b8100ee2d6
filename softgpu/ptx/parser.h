// PTX text → ptx::Module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/ptx/ast.h"
#include "softgpu/ptx/lexer.h"

namespace vgpu::softgpu::ptx {

// False and a diagnostic with line and column when the text is not PTX that we know.
bool parse_module(std::string_view source, Module* module, Diagnostic* error);

// Recursive descent. After the first error every step does nothing and the position stays.
class Parser {
 public:
  Parser(std::string_view source, std::vector<Token> tokens, Module* module)
      : source_(source), tokens_(std::move(tokens)), module_(module) {}
  bool run(Diagnostic* error);

 private:
  // parser.cc: tokens and the module level
  const Token& peek(size_t ahead = 0) const;
  Token take();
  size_t place() const;  // of the next token in the source
  bool is(std::string_view text) const {
    return !failed_ && peek().text == text && peek().kind != Token::Kind::kString;
  }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  void fail(const std::string& text);
  void fail_at(const Token& token, const std::string& text);
  std::string word();
  int64_t integer();
  void skip_past(std::string_view text);
  void module_item();
  void header_directive();
  void section();
  void note_linkage(const std::string& name);
  void module_variable(bool external);
  void alias();

  // parse_declaration.cc: variables, initialisers, functions
  struct DeclaredType {
    Type type;
    uint32_t lanes = 1, align = 0;  // 0: the type's own
  };
  DeclaredType declared_type();
  Variable variable_declaration(Space space, const DeclaredType& declared);
  Variable variable_declaration(Space space) {
    return variable_declaration(space, declared_type());
  }
  void initializer(const Type& type, GlobalVar* global);
  void initializer_value(const Type& type, uint64_t offset, GlobalVar* global);
  void function(bool is_kernel);
  std::vector<Variable> parameter_list(uint32_t* bytes);
  void function_directives();
  void read_dims(uint32_t dims[3]);
  void finish_function();

  // parse_body.cc: statements
  void body();
  void statement();
  void register_declaration();
  void prototype(const std::string& label);
  void local_variable(Space space);
  void instruction();
  void call_operands(Instruction* in);
  Operand operand();
  void second_destination(Operand* o);
  Operand address_operand();
  Operand number_operand(bool negative);
  void label(const std::string& name);
  void close_scope();
  std::string find_variable(const std::string& name) const;
  // Gives the variable a place behind what is there already.
  void place_variable(Variable* variable, uint32_t* bytes, uint64_t bytes_max);
  int find_register(const std::string& name) const;
  void name_carry(Instruction* in);

  const std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module* module_;
  Function* function_ = nullptr;                    // the one whose body is being read
  std::vector<std::map<std::string, int>> scopes_;  // names of registers, innermost last
  // What variables of inner scopes are called in the function, where names are unique.
  std::vector<std::map<std::string, std::string>> variable_scopes_;
  // Labels that other scopes have, too: where the scope's instructions begin, and the new names.
  struct LabelScope {
    size_t begin = 0;
    std::map<std::string, std::string> names;
  };
  std::vector<LabelScope> label_scopes_;
  int carry_ = -1;  // the register that stands for the carry flag, once it is used
  Linkage linkage_ = Linkage::kLocal;               // of the item being read
  bool in_address_ = false, may_subtract_ = false;  // its elements are being read
  bool failed_ = false;
  Diagnostic error_;
};

}  // namespace vgpu::softgpu::ptx
