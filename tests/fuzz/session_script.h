// Bytes as a hostile guest: every input becomes a sequence of records for one session.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_SESSION_SCRIPT_H_
#define VGPU_TESTS_FUZZ_SESSION_SCRIPT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "driver_table.h"

namespace vgpu::testing {

// First byte of an input that holds a guest's records as they stood in its ring
// (record_sessions.py). Any other byte begins a compact script.
inline constexpr uint8_t kRecordedScript = 0xff;

// What came of a script, so that a test can see that it reached something.
struct ScriptResult {
  uint64_t records = 0;    // written
  bool malformed = false;  // the session ended because of one of them
};

// Runs the records of `input` through a session on `driver` (the memory double) in this thread.
// Whatever the bytes say, nothing outside the session's own memory may be touched: sanitizers and
// the double's real mappings notice. `answer_ns`: how long a recorded guest waits for an answer; a
// fuzzer, most of whose inputs get none, has no time.
inline constexpr int64_t kAnswerNs = 5'000'000'000;
ScriptResult run_session_script(const DriverTable* driver, std::span<const uint8_t> input,
                                int64_t answer_ns = kAnswerNs);

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_FUZZ_SESSION_SCRIPT_H_
