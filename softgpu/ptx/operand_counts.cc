// From the tables of the PTX manual.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/ptx/operand_counts.h"

#include <map>
#include <set>

namespace vgpu::softgpu::ptx {

size_t least_operands(const std::string& opcode) {
  static const std::map<size_t, const char*> kOpcodes = {
      {1, " bra stacksave stackrestore "},
      {2,
       " mov ld st ldu cvt cvta abs neg not cnot popc clz brev bfind isspacep rcp sqrt rsqrt sin "
       "cos "
       "ex2 lg2 tanh testp red vote brx alloca getctarank "},
      {3,
       " vadd vsub vabsdiff vmin vmax vshl vshr vset vadd2 vsub2 vabsdiff2 vmin2 vmax2 vavrg2 "
       "vset2 "
       "vadd4 vsub4 vabsdiff4 vmin4 vmax4 vavrg4 vset4 "
       "add sub addc subc mul mul24 div rem min max and or xor shl shr setp set copysign atom "
       "match "
       "redux szext bmsk mapa "},
      {4, " vmad mad madc mad24 fma sad selp slct bfe shf prmt dp4a dp2a shfl fns "},
      {5, " lop3 bfi "}};
  static const auto* const counts = [] {
    auto* all = new std::map<std::string, size_t>;
    for (const auto& [count, text] : kOpcodes) {
      const std::string words = text;
      for (size_t at = 1; at < words.size();) {
        const size_t end = words.find(' ', at);
        (*all)[words.substr(at, end - at)] = count;
        at = end + 1;
      }
    }
    return all;
  }();
  const auto found = counts->find(opcode);
  return found == counts->end() ? 0 : found->second;
}

bool is_opcode(const std::string& opcode) {
  static const std::set<std::string> kOpcodes = {
#define VGPU_OPCODE(name, handler) #name,
#include "softgpu/ptx/opcodes.inc"
#undef VGPU_OPCODE
      // Those that are gone before code is made, and one for which there are no objects.
      "bra", "brx", "ret", "exit", "alloca", "stacksave", "stackrestore", "multimem"};
  return kOpcodes.count(opcode) != 0 && !only_passes_make(opcode);
}

bool of_one_architecture(const std::string& opcode) {
  return opcode == "wgmma" || opcode == "tcgen05";
}

bool only_passes_make(const std::string& opcode) {
  return opcode == "switch" || opcode == "frame" || opcode == "stackcheck";
}

}  // namespace vgpu::softgpu::ptx
