// Cuts PTX text into tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "softgpu/program.h"

namespace vgpu::softgpu::ptx {

struct Token {
  enum class Kind : char { kWord, kNumber, kString, kPunctuation, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // into the source; strings without their quotes
  int line = 0, column = 0;
};

// A word starts with a letter or one of . % $ _ and goes on through letters, digits, . $ _ and
// '::'. False and a diagnostic at a character that PTX does not have, or an open comment or string.
bool tokenize(std::string_view source, std::vector<Token>* tokens, Diagnostic* error);

}  // namespace vgpu::softgpu::ptx
