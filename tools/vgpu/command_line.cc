// Definition of the subcommands with CLI11.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "base/env.h"
#include "tools/vgpu/help.h"

namespace vgpu::tools {
namespace {

constexpr int kExitUsage = 2;

std::string check_size(const std::string& text) {
  const auto bytes = parse_size(text);
  if (bytes && *bytes > 0) return "";
  return "'" + text + "' is not a size; write it like 512M, 4G or 1.5GiB";
}

void add_server(CLI::App* command, std::string* server) {
  command->add_option("--server", *server,
                      "Address of the server: unix:/absolute/path, or tcp://host:port on a network "
                      "(default: $VGPU_SERVER, else the socket of your own or the system's vgpud)");
}

std::string check_cap(const std::string& text) {
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  const bool whole = end != text.c_str() && (*end == '\0' || std::string(end) == "%");
  if (whole && percent >= 0.1 && percent <= 100) return "";
  return "'" + text + "' is not a cap; write it as percent of the device's time, from 0.1 to 100";
}

void add_share(CLI::App* command, std::string* share, std::string* cap, std::string* priority) {
  command->add_option("--share", *share, "Weight among guests of the same priority, 1 to 10000")
      ->check(CLI::Range(1, 10'000));
  command
      ->add_option("--cap", *cap,
                   "Most of the device's time that it may have even when nobody else wants it, in "
                   "percent")
      ->check(CLI::Validator(check_cap, "PERCENT"));
  command->add_option("--priority", *priority, "Class: system, latency, normal or spot")
      ->check(CLI::IsMember({"system", "latency", "normal", "spot"}));
}

CLI::App* add_run(CLI::App* app, CommandLine* line) {
  CLI::App* run = app->add_subcommand("run", "Run a CUDA program as a guest of a vGPU server");
  run->footer(kRunExamples);
  run->add_option("--server", line->run.server,
                  "Address of the server: unix:/absolute/path, or tcp://host:port on a network; "
                  "several with commas between: the program sees the devices of all, in order "
                  "(default: $VGPU_SERVER, else the socket of your own or the system's vgpud)");
  run->add_option("--mem", line->run.memory,
                  "Device memory of this guest, on each of its devices: 512M, 4G")
      ->check(CLI::Validator(check_size, "SIZE"));
  run->add_option("--devices", line->run.devices,
                  "Which of the server's devices: numbers of vgpu info or GPU-uuid, with commas "
                  "between (default: as the server is set up)");
  run->add_option("--name", line->run.name, "Name that vgpu info shows for this guest");
  run->add_option("--profile", line->run.profile,
                  "Profile of the server's configuration (default: the tenant's default one)");
  add_share(run, &line->run.share, &line->run.cap, &line->run.priority);
  run->add_option("--token-file", line->run.token_file,
                  "File with the token that says which tenant's guest it is");
  run->add_option("--stats", line->run.stats,
                  "Print counts at exit as JSON to stderr, or write them: --stats=FILE");
  run->add_flag("--direct", line->run.direct,
                "No server: put the software GPU itself under the program (the native baseline)");
  run->add_option_function<std::string>(
      "--kernel-profile",
      [line](const std::string& file) {
        line->run.kernel_profile = file;
        line->run.direct = true;
      },
      "Write what each kernel did and how to make it faster to this file, and to FILE.json; "
      "implies "
      "--direct");
  run->add_flag_callback(
      "--no-check", [line] { line->run.check = false; },
      "Do not ask the server first whether it is there");
  return run;
}

CLI::App* add_info(CLI::App* app, CommandLine* line) {
  CLI::App* info = app->add_subcommand("info", "Show a server, its devices and its guests");
  info->footer(kInfoExamples);
  add_server(info, &line->server);
  info->add_flag("--json", line->json, "Print JSON");
  return info;
}

CLI::App* add_listing(CLI::App* app, CommandLine* line, const char* name, const char* what,
                      const char* examples) {
  CLI::App* command = app->add_subcommand(name, what);
  command->footer(examples);
  add_server(command, &line->server);
  command->add_flag("--json", line->json, "Print JSON");
  return command;
}

CLI::App* add_top(CLI::App* app, CommandLine* line) {
  CLI::App* top =
      add_listing(app, line, "top", "Watch guests: use, shares, memory, waiting", kTopExamples);
  top->add_option("--interval", line->top.interval_s, "Seconds between pictures (default 1)")
      ->check(CLI::Range(0.05, 3600.0));
  top->add_option("--count", line->top.count, "Pictures, then end (default: until q)");
  return top;
}

CLI::App* add_limit(CLI::App* app, CommandLine* line) {
  CLI::App* limit =
      add_listing(app, line, "limit", "Change what a running guest may have", kLimitExamples);
  limit->add_option("guest", line->limit.guest, "Its number, process or name, as vgpu ps shows it")
      ->required();
  limit->add_option("--mem", line->limit.memory, "Device memory on each of its devices")
      ->check(CLI::Validator(check_size, "SIZE"));
  add_share(limit, &line->limit.share, &line->limit.cap, &line->limit.priority);
  return limit;
}

CLI::App* add_kill(CLI::App* app, CommandLine* line) {
  CLI::App* kill = add_listing(app, line, "kill", "End a guest's session", kKillExamples);
  kill->add_option("guest", line->guest, "Its number, process or name, as vgpu ps shows it")
      ->required();
  return kill;
}

CLI::App* add_drain(CLI::App* app, CommandLine* line) {
  CLI::App* drain = add_listing(app, line, "drain", "Let no new guests in", kDrainExamples);
  drain->add_flag("--wait", line->drain.wait, "Wait until the last guest has gone");
  drain->add_option("--timeout", line->drain.timeout_s, "Seconds to wait at most");
  drain->add_flag("--undo", line->drain.undo, "Let guests in again");
  return drain;
}

CLI::App* add_stop(CLI::App* app, CommandLine* line) {
  CLI::App* stop = app->add_subcommand("stop", "Stop a server");
  stop->footer(kStopExamples);
  add_server(stop, &line->server);
  stop->add_flag("--force", line->force, "End its guests as well (otherwise they go on)");
  return stop;
}

CLI::App* add_doctor(CLI::App* app, CommandLine* line) {
  CLI::App* doctor = app->add_subcommand("doctor", "Check what this machine lacks for vGPU");
  doctor->footer(kDoctorExamples);
  add_server(doctor, &line->server);
  doctor->add_flag("--json", line->json, "Print JSON");
  return doctor;
}

// One action of `vgpu key`.
CLI::App* add_key_action(CLI::App* key, CommandLine* line, KeyAction action, const char* name,
                         const char* about) {
  CLI::App* command = key->add_subcommand(name, about);
  command->add_option("--file", line->key.file, "Another file than the usual one");
  command->parse_complete_callback([line, action] { line->key.action = action; });
  return command;
}

void add_server_key(CLI::App* command, CommandLine* line) {
  command->add_flag_callback(
      "--server", [line] { line->key.server = true; },
      "The key of this machine's server (server.key) rather than the guest's (guest.key)");
}

CLI::App* add_key(CLI::App* app, CommandLine* line) {
  CLI::App* key = app->add_subcommand("key", "Keys for servers on a network, and who is admitted");
  key->footer(kKeyExamples);
  key->require_subcommand(1);
  CLI::App* create =
      add_key_action(key, line, KeyAction::kCreate, "create", "Make a key; prints its public half");
  add_server_key(create, line);
  create->add_flag_callback(
      "--force", [line] { line->key.replace = true; }, "Also where there is a key already");
  add_server_key(
      add_key_action(key, line, KeyAction::kShow, "show", "Print the public half of a key"), line);
  CLI::App* authorize = add_key_action(key, line, KeyAction::kAuthorize, "authorize",
                                       "On the server: admit a guest's public key as a tenant");
  authorize->add_option("key", line->key.key, "Public key, in single quotes")->required();
  authorize->add_option("tenant", line->key.tenant, "Whose guests they are")->required();
  authorize->add_option("--comment", line->key.comment, "Kept beside the key");
  CLI::App* revoke =
      add_key_action(key, line, KeyAction::kRevoke, "revoke",
                     "On the server: admit a key, or a tenant's keys, no more; their guests end");
  revoke->add_option("whom", line->key.key, "Public key or tenant")->required();
  CLI::App* trust =
      key->add_subcommand("trust", "On the guest's machine: remember the public key of a server");
  trust->add_option("address", line->key.address, "tcp://host:port, as guests name it")->required();
  trust->add_option("key", line->key.key, "The server's public key, in single quotes")->required();
  trust->parse_complete_callback([line] { line->key.action = KeyAction::kTrust; });
  return key;
}

CLI::App* add_demo(CLI::App* app, CommandLine* line) {
  CLI::App* demo = app->add_subcommand("demo", "Show two guests on one device, and what it costs");
  demo->footer(kDemoExamples);
  demo->add_option("--rounds", line->demo.rounds,
                   "Runs of each kind; medians are shown (default 3)")
      ->check(CLI::Range(1, 100));
  demo->add_option("--timeout", line->demo.timeout_s, "Seconds that one run may take (default 120)")
      ->check(CLI::Range(1, 3600));
  demo->add_flag("--keep", line->demo.keep, "Keep the folder with the server's log");
  demo->add_option("programs", line->demo.programs,
                   "Two programs, by name or path (default: vecadd matmul)")
      ->expected(2);
  return demo;
}

CLI::App* add_bench(CLI::App* app, CommandLine* line) {
  CLI::App* bench = app->add_subcommand("bench", "Measure what virtualisation costs here");
  bench->footer(kBenchExamples);
  bench->add_option("--json", line->bench.json_file, "Also write everything measured to this file");
  bench->add_flag("--quick", line->bench.quick,
                  "About a tenth of the repetitions, copies to 16 MiB");
  bench
      ->add_option_function<std::string>(
          "what",
          [line](const std::string& what) {
            line->bench.softgpu = what == "softgpu";
            line->bench.network = what == "network";
            line->bench.sharing = what == "sharing";
          },
          "softgpu: kernels on the software GPU beside the same in C++, instead; "
          "network: a channel between hosts beside libfabric itself; "
          "sharing: guests that share the software GPU, under each scheduler")
      ->check(CLI::IsMember({"softgpu", "network", "sharing"}));
  return bench;
}

// The arguments of `run` that are ours, and the program's. CLI11 could not tell them apart: options
// of the program may have the names of ours.
struct RunArguments {
  std::vector<std::string> ours, program;
};

RunArguments split_run(const std::vector<std::string>& arguments) {
  static constexpr std::string_view kWithValue[] = {
      "--server", "--mem", "--devices",  "--name",       "--profile",
      "--share",  "--cap", "--priority", "--token-file", "--kernel-profile"};
  RunArguments split;
  size_t at = 0;
  for (; at < arguments.size() && arguments[at].starts_with('-'); ++at) {
    if (arguments[at] == "--") {
      ++at;
      break;
    }
    split.ours.push_back(arguments[at] == "--stats" ? "--stats=1" : arguments[at]);
    const bool with_value = std::find(std::begin(kWithValue), std::end(kWithValue),
                                      arguments[at]) != std::end(kWithValue);
    if (with_value && at + 1 < arguments.size()) split.ours.push_back(arguments[++at]);
  }
  split.program.assign(arguments.begin() + static_cast<ptrdiff_t>(std::min(at, arguments.size())),
                       arguments.end());
  return split;
}

CommandLine ended(int code, const std::string& text) {
  CommandLine line;
  line.exit_code = code;
  line.output = text;
  return line;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app(kAbout, "vgpu");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", "vgpu " VGPU_VERSION);
  const std::pair<CLI::App*, Command> commands[] = {
      {add_run(&app, &line), Command::kRun},
      {add_info(&app, &line), Command::kInfo},
      {add_listing(&app, &line, "ps", "List guests with what they have and use", kPsExamples),
       Command::kPs},
      {add_top(&app, &line), Command::kTop},
      {add_limit(&app, &line), Command::kLimit},
      {add_kill(&app, &line), Command::kKill},
      {add_drain(&app, &line), Command::kDrain},
      {add_stop(&app, &line), Command::kStop},
      {add_doctor(&app, &line), Command::kDoctor},
      {add_key(&app, &line), Command::kKey},
      {add_demo(&app, &line), Command::kDemo},
      {add_bench(&app, &line), Command::kBench}};
  if (arguments.empty()) return ended(kExitUsage, app.help());
  const bool is_run = arguments.front() == "run";
  std::vector<std::string> parsed = arguments;
  RunArguments split;
  if (is_run) {
    split = split_run({arguments.begin() + 1, arguments.end()});
    parsed = split.ours;
    parsed.insert(parsed.begin(), "run");
  }
  try {
    app.parse(std::vector<std::string>(parsed.rbegin(), parsed.rend()));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, problem;
    const int code = app.exit(error, out, problem);
    if (code == 0) return ended(0, out.str());
    return ended(is_run ? kExitOwnFailure : kExitUsage, problem.str());
  }
  for (const auto& [command, kind] : commands) {
    if (command->parsed()) line.command = kind;
  }
  if (is_run && split.program.empty()) {
    return ended(kExitOwnFailure, "vgpu run: no program given; for example: vgpu run -- ./app\n");
  }
  line.run.command = split.program;
  line.top.json = line.json;
  return line;
}

}  // namespace vgpu::tools
