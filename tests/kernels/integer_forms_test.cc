// Integer arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "instruction.h"

namespace vgpu::softgpu {
namespace {

using U = uint32_t;
using S = int32_t;

TEST(IntegerForms, Add) {
  check({binary<U, U, U>("add.u32", [](U a, U b) { return a + b; })});
}

}  // namespace
}  // namespace vgpu::softgpu
