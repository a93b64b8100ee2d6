// vgpu's command line: subcommands, their options, and the help that teaches them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_COMMAND_LINE_H_
#define VGPU_TOOLS_VGPU_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "tools/vgpu/bench.h"
#include "tools/vgpu/demo.h"
#include "tools/vgpu/guests.h"
#include "tools/vgpu/key.h"
#include "tools/vgpu/run.h"
#include "tools/vgpu/top.h"

namespace vgpu::tools {

enum class Command {
  kNone,
  kRun,
  kInfo,
  kPs,
  kTop,
  kLimit,
  kKill,
  kDrain,
  kStop,
  kDoctor,
  kKey,
  kDemo,
  kBench
};

struct CommandLine {
  Command command = Command::kNone;  // kNone: end with exit_code (help, or a mistake)
  int exit_code = 0;
  std::string output;  // what to print then: to stdout when exit_code is 0, else to stderr
  RunOptions run;
  KeyOptions key;
  DemoOptions demo;
  BenchOptions bench;
  TopOptions top;
  LimitOptions limit;
  DrainOptions drain;
  std::string server;  // of all but run, demo and bench
  std::string guest;   // kill
  bool json = false;
  bool force = false;
};

// Reads the arguments (without the program's name). Prints nothing. A mistake gives exit code 2;
// for `run` kExitOwnFailure, since 2 may be the program's.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_COMMAND_LINE_H_
