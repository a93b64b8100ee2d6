// What a guest's share means to the operating system: how nice its worker's threads are.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_OS_WEIGHT_H_
#define VGPU_SERVER_OS_WEIGHT_H_

#include <sys/types.h>

#include "scheduler/share.h"

namespace vgpu::server {

// Steps of niceness from a guest of the default share, each of them a quarter more or less of a
// processor that others want too; negative: more. A class above is ten steps.
int nice_steps(const scheduler::Share& share);

// Whether this process may make others less nice again: without that nothing is changed at all.
// (CAP_SYS_NICE, or a limit that allows it.)
bool may_set_nice();

// All threads of process `pid`, and those that they make from now on, are `steps` nicer than this
// process was when it began. False: not all of them; the process is not there, or makes
// threads faster than they are found.
bool set_nice_steps(pid_t pid, int steps);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_OS_WEIGHT_H_
