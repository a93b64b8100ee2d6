// How an engine says that a promise is broken: a trap, which every fuzzer and every test notices.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_REQUIRE_H_
#define VGPU_TESTS_FUZZ_REQUIRE_H_

namespace vgpu::testing {

inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_FUZZ_REQUIRE_H_
