// PTX as parsed: modules, functions, instructions. Names are resolved; modifiers stay strings for
// the emitter's tables. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "softgpu/program.h"

namespace vgpu::softgpu::ptx {

// kind: 'b' bits, 'u' unsigned, 's' signed, 'f' float, 'p' predicate, 'g' bfloat (16 bits). Pairs
// in one register: 'h' of halves, 'g' with 32 bits of bfloats, 'F' of singles, 'S' and 'U' of
// 16-bit integers.
struct Type {
  char kind = 'b';
  uint8_t bits = 32;
  bool operator==(const Type&) const = default;
  bool is_float() const { return kind == 'f'; }
  bool is_signed() const { return kind == 's'; }
  bool is_pair() const {
    return kind == 'h' || kind == 'F' || kind == 'S' || kind == 'U' || (kind == 'g' && bits == 32);
  }
  // Any floating-point type or pair of them.
  bool is_real() const { return kind == 'f' || kind == 'h' || kind == 'g' || kind == 'F'; }
  // The type of a pair's halves; of others the type itself.
  Type element() const;
  uint32_t bytes() const { return bits / 8; }
};
// ".f32" without the dot. False when it is no type.
bool parse_type(const std::string& text, Type* type);

enum class Space : uint8_t { kGlobal, kConst, kShared, kLocal, kParam, kReg };

struct Register {
  std::string name;
  Type type;
};

// A variable in a state space: of the module (global, const, shared) or of a function (shared,
// local, param).
struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  uint64_t bytes = 0;
  uint32_t align = 1;
  uint32_t offset =
      0;  // shared: in the block's window; local: in the thread's slice; param: in the buffer
  bool dynamic = false;   // extern shared array without a size
  bool external = false;  // shared, with a size: another module may define it
};

struct Operand {
  enum class Kind : uint8_t {
    kNone,
    kRegister,
    kInteger,
    kFloat,
    kSpecial,
    kSymbol,
    kAddress,
    kVector,
    kSink
  };
  Kind kind = Kind::kNone;
  int reg = -1;             // kRegister, and the base of kAddress
  int second = -1;          // p|q
  int64_t integer = 0;      // kInteger, and the offset of kAddress
  uint64_t float_bits = 0;  // kFloat
  bool is_double = false;   // kFloat written as 0d…
  bool negated = false;     // !p
  std::string symbol;       // kSpecial, kSymbol, and the base of kAddress
  std::string selector;     // kRegister of video instructions: "b0", "h1", "b3210"
  std::vector<Operand> elements;
};

struct Instruction {
  std::string opcode;
  std::vector<std::string> modifiers;  // in order, without dots
  int guard = -1;                      // predicate register
  bool guard_negated = false;
  std::vector<Operand> operands;
  int line = 0, column = 1;

  bool has(const char* modifier) const;
  // Whether it names shared memory, the block's or the cluster's.
  bool in_shared() const { return has("shared") || has("shared::cta") || has("shared::cluster"); }
  // The n-th modifier that is a type, counted from the end: 0 = the last.
  bool type_from_end(int n, Type* type) const;
};

// What a module may ask for. A kernel's own limits are less (program.cc).
inline constexpr uint64_t kModuleSharedBytesMax = 64u << 20;  // all its kernels' together
inline constexpr uint64_t kLocalBytesMax = 512u << 10;        // of a thread, as natively
inline constexpr uint64_t kParameterBytesMax = 1u << 20;

// What a function takes and gives: the shape of a .callprototype.
struct Prototype {
  std::vector<Variable> params, returns;
};

// A label's place: instructions before `index` come earlier.
struct Function {
  std::string name;
  bool is_kernel = false;
  bool is_declaration = false;
  int line = 0;
  size_t text_begin = 0, text_end = 0;  // where its head and body lie in the source
  std::vector<Register> registers;
  std::vector<Variable> params, returns;
  std::map<std::string, Variable> variables;  // shared, local and param variables of the body
  std::vector<Instruction> body;
  std::map<std::string, int> labels;  // label → index of the instruction that follows
  std::map<std::string, std::vector<std::string>> branch_targets;  // also of .calltargets
  std::map<std::string, Prototype> prototypes;
  uint32_t param_bytes = 0, local_bytes = 0;
  // What one lane's local variables take: the lanes' slices follow each other.
  uint32_t local_slice() const { return (local_bytes + 15) / 16 * 16; }
  uint32_t max_threads[3] = {}, required_threads[3] = {};
  uint32_t required_cluster[3] = {}, max_cluster_blocks = 0;
  bool explicit_cluster = false;
};

// Who sees a name when modules are linked. Without a word for it: the module alone.
enum class Linkage : uint8_t { kLocal, kVisible, kWeak, kCommon, kExternal };

struct Module {
  int version = 0, target = 0;
  std::vector<GlobalVar> globals;
  std::map<std::string, Variable> variables;  // of the module: global, const and shared
  std::vector<Function> functions;
  std::map<std::string, int> function_index;
  std::map<std::string, std::string> aliases;
  std::map<std::string, Linkage> linkage;  // of functions and variables of the module
  uint32_t shared_bytes = 0;               // of the module's .shared variables
};

}  // namespace vgpu::softgpu::ptx
