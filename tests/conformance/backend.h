// Which driver the suite talks to: the software GPU, our shim over loop or shm, or NVIDIA's.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_BACKEND_H_
#define VGPU_TESTS_CONFORMANCE_BACKEND_H_

#include <string>

#include "driver_table.h"

namespace vgpu::conformance {

// Prepares the back end named by VGPU_TEST_BACKEND (direct, loop, shm, packed, fabric, region,
// router, machine, cuda): for shm a vgpud of this process's own, ended with it; for packed one that
// has its guests in one worker, where another guest is already; for router two; for fabric also a
// gate, which the guest reaches over the loopback network; for region what stands between guests
// and that vgpud in a virtual machine. In one (machine) all that is there, and VGPU_TEST_LIBRARY is
// the guest library. Ends the process with a message when that fails. Call once, from main.
void set_up_backend();
// False, with a message, unless the vgpud was there to the end and ended on SIGTERM with 0.
[[nodiscard]] bool tear_down_backend();

// In a process of its own: a guest that takes a little memory, makes the file `ready`, and does
// nothing until it is killed. Returns if that cannot be.
int be_neighbour(const char* ready);

// Whether the guest's memory is another host's, or a machine's: nothing is mapped on both sides.
bool is_apart();

// The driver under test, loaded on first use.
const DriverTable& driver();

// Runs one test of this program, named "Suite.DISABLED_Name", in a fresh process against the same
// server. Returns its exit code, 128 + signal, or 124 when it hangs.
int run_in_fresh_process(const std::string& test);

// NAME of a result, for messages.
std::string result_name(CUresult result);

}  // namespace vgpu::conformance

// The call's result must be exactly this. The driver's table is implied: EXPECT_CU(cuInit(0), …).
#define EXPECT_CU(call, expected)                                                             \
  do {                                                                                        \
    const CUresult got_ = ::vgpu::conformance::driver().call;                                 \
    EXPECT_EQ(got_, expected) << #call << " gave " << ::vgpu::conformance::result_name(got_); \
  } while (false)
#define EXPECT_OK(call) EXPECT_CU(call, CUDA_SUCCESS)
#define ASSERT_OK(call)                                                                           \
  do {                                                                                            \
    const CUresult got_ = ::vgpu::conformance::driver().call;                                     \
    ASSERT_EQ(got_, CUDA_SUCCESS) << #call << " gave " << ::vgpu::conformance::result_name(got_); \
  } while (false)

#endif  // VGPU_TESTS_CONFORMANCE_BACKEND_H_
