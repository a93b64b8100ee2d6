// Silence is counted while somebody listens.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/patient_clock.h"

#include <gtest/gtest.h>

namespace vgpu::net {
namespace {

TEST(PatientClock, GoesOnWhileItIsLookedAt) {
  PatientClock clock(1000);
  const uint64_t start = clock.ms();
  EXPECT_NE(start, 0u) << "0 says that there is no time";
  for (uint64_t now = 1000; now <= 31'000; now += 500) clock.look(now);
  EXPECT_EQ(clock.ms() - start, 30'000u);
}

TEST(PatientClock, AStopOfOnesOwnIsNoSilenceOfOthers) {
  PatientClock clock(1000);
  const uint64_t start = clock.ms();
  clock.look(1500);
  clock.look(601'500);  // ten minutes in a debugger, or without a processor
  EXPECT_EQ(clock.ms() - start, 500 + PatientClock::kStepMsMax);
  clock.look(602'500);
  EXPECT_EQ(clock.ms() - start, 1500 + PatientClock::kStepMsMax);
}

}  // namespace
}  // namespace vgpu::net
