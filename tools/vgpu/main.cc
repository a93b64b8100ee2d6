// vgpu: the program that users meet.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "tools/vgpu/command_line.h"
#include "tools/vgpu/doctor.h"
#include "tools/vgpu/guests.h"
#include "tools/vgpu/info.h"
#include "tools/vgpu/top.h"

namespace {

int execute(const vgpu::tools::CommandLine& line) {
  using vgpu::tools::Command;
  switch (line.command) {
    case Command::kNone:
      std::fputs(line.output.c_str(), line.exit_code == 0 ? stdout : stderr);
      return line.exit_code;
    case Command::kRun:
      return vgpu::tools::run_program(line.run);
    case Command::kInfo:
      return vgpu::tools::show_info(line.server, line.json);
    case Command::kPs:
      return vgpu::tools::show_guests(line.server, line.json);
    case Command::kTop:
      return vgpu::tools::show_top(line.server, line.top);
    case Command::kLimit:
      return vgpu::tools::limit_guest(line.server, line.limit, line.json);
    case Command::kKill:
      return vgpu::tools::kill_guest(line.server, line.guest, line.json);
    case Command::kDrain:
      return vgpu::tools::drain(line.server, line.drain, line.json);
    case Command::kStop:
      return vgpu::tools::stop(line.server, line.force);
    case Command::kDoctor:
      return vgpu::tools::examine(line.server, line.json);
    case Command::kKey:
      return vgpu::tools::manage_keys(line.key);
    case Command::kDemo:
      return vgpu::tools::run_demo(line.demo);
    case Command::kBench:
      return vgpu::tools::run_bench(line.bench);
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return execute(vgpu::tools::parse_command_line({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vgpu: %s\n", error.what());
    return 1;
  }
}
