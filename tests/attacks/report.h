// What a worker that has been taken over could do: kept in a file that the test maps as well.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_ATTACKS_REPORT_H_
#define VGPU_TESTS_ATTACKS_REPORT_H_

#include <atomic>
#include <cstdint>

namespace vgpu::testing {

inline constexpr char kReportVariable[] = "VGPU_TEST_ATTACK_REPORT";  // path of the file
inline constexpr char kSocketVariable[] = "VGPU_TEST_ATTACK_SOCKET";  // vgpud's
inline constexpr uint32_t kReportTextBytes = 8000;

struct Report {
  std::atomic<uint32_t> workers;  // that were taken over
  std::atomic<uint32_t> tried;
  std::atomic<uint32_t> bytes;     // of `reached`
  char reached[kReportTextBytes];  // names of what it could do, each with a newline
};

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_ATTACKS_REPORT_H_
