// What the two programs of this folder share: options, the log, being told to stop.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_PROGRAM_H_
#define VGPU_VM_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace vgpu::vm {

// "--name value" pairs, each of which sets something; false: the value is no good.
using OptionTable = std::map<std::string, std::function<bool(const std::string&)>>;

// Sets what the arguments say. An exit code when the program is to end now: after --help,
// --version, or what is wrong with the arguments.
std::optional<int> parse_options(int argc, char** argv, const char* help, const OptionTable& table);

// "256M", "1G"; nullopt: none.
std::optional<uint64_t> parse_size(const std::string& text);

// Logs from level info on to stderr, unless VGPU_LOG says otherwise; a signal to stop is noticed by
// stopping() and ends the poll in progress.
void start_program();
bool stopping();

}  // namespace vgpu::vm

#endif  // VGPU_VM_PROGRAM_H_
