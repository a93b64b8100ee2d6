// libFuzzer: any bytes in the mailbox of a virtual machine.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/protocol_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  (void)vgpu::protocol::run_mail_script({data, bytes});
  return 0;
}
