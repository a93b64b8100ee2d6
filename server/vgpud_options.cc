// CLI11: the edge of the server where libraries may throw.
// SPDX-License-Identifier: Apache-2.0
#include "server/vgpud_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

#include "base/env.h"
#include "protocol/transport/connect.h"
#include "server/attach.h"
#include "server/config_file.h"
#include "server/log.h"
#include "server/program_path.h"

namespace vgpu::server {
namespace {

constexpr char kAbout[] =
    "vgpud shares this machine's GPU among guests.\n"
    "A guest is any CUDA program that runs with vGPU's libcuda.so.1; it connects to this server's "
    "socket and gets a worker process of its own. Without a GPU, the software GPU serves.";
constexpr char kExamples[] =
    "Examples:\n"
    "  vgpud                              serve at the default address, GPU if there is one\n"
    "  vgpud --driver soft                serve the software GPU\n"
    "  vgpud --devices 0,2                share two of the machine's GPUs\n"
    "  vgpud --guest-devices 1            spread guests: each gets the GPU with the most memory "
    "left\n"
    "  vgpud --listen unix:/tmp/g.sock    another address; guests use: vgpu run --server "
    "unix:/tmp/g.sock -- app\n"
    "  vgpud --config /etc/vgpu/vgpud.toml\n"
    "  vgpud --config /etc/vgpu/vgpud.toml --check-config\n"
    "Signals: HUP reads the configuration again; TERM or INT stop the server; guests that run go "
    "on, and a\nserver started later at the same address takes them over. `vgpu stop --force` ends "
    "the guests as well.";

constexpr int64_t kWorkersAheadMax = 64;

// The command line. What it leaves empty the file says, and else the default holds.
struct Raw {
  ConfigFile words;
  std::string config;
  bool check = false;
};

void fill(std::string* field, const std::string& from) {
  if (field->empty()) *field = from;
}

Result<ConfigFile> merged(const Raw& raw) {
  ConfigFile all = raw.words;
  if (raw.config.empty()) return all;
  Result<ConfigFile> file = read_config_file(raw.config);
  if (!file.ok()) return file.status();
  if (all.listen.empty()) all.listen = file->listen;
  fill(&all.driver, file->driver);
  fill(&all.devices, file->devices);
  fill(&all.memory_default, file->memory_default);
  fill(&all.headroom, file->headroom);
  fill(&all.log_level, file->log_level);
  fill(&all.socket_mode, file->socket_mode);
  fill(&all.worker_users, file->worker_users);
  fill(&all.metrics, file->metrics);
  fill(&all.scheduler, file->scheduler);
  fill(&all.mps_control, file->mps_control);
  fill(&all.server_key, file->server_key);
  fill(&all.authorized_keys, file->authorized_keys);
  if (!all.require_encryption) all.require_encryption = file->require_encryption;
  if (!all.tenants_reach_host_memory)
    all.tenants_reach_host_memory = file->tenants_reach_host_memory;
  if (!all.network_grace) all.network_grace = file->network_grace;
  if (!all.workers_ahead) all.workers_ahead = file->workers_ahead;
  if (!all.guest_devices) all.guest_devices = file->guest_devices;
  all.policy = std::move(file->policy);
  return all;
}

Status complain(const char* what, const std::string& text, const char* wanted) {
  return Status(StatusCode::kInvalidArgument,
                std::string(what) + ": '" + text + "' is not " + wanted);
}

Status interpret_counts(const ConfigFile& words, DaemonOptions* options) {
  options->devices = words.devices == "all" ? "" : words.devices;
  if (options->devices.size() > protocol::kTextBytesMax)
    return complain("devices", words.devices, "a list of devices");
  if (const auto number = words.guest_devices) {
    if (*number < 1 || *number > static_cast<int64_t>(protocol::kDevicesMax))
      return complain("guest-devices", std::to_string(*number), "a number from 1 to 16");
    options->guest_devices = static_cast<unsigned>(*number);
  }
  if (const auto ahead = words.workers_ahead) {
    if (*ahead < 1 || *ahead > kWorkersAheadMax)
      return complain("workers-ahead", std::to_string(*ahead), "a number from 1 to 64");
    options->workers_ahead = static_cast<unsigned>(*ahead);
  }
  return ok_status();
}

Status interpret_metrics(const ConfigFile& words, DaemonOptions* options) {
  if (words.metrics.empty()) return ok_status();
  options->metrics = metrics_address(words.metrics);
  if (!options->metrics.empty()) return ok_status();
  return complain("metrics", words.metrics, "a port, or an address like 127.0.0.1:19464");
}

Status interpret_users(const ConfigFile& words, DaemonOptions* options) {
  options->worker_users = UserRange::by_default();
  if (words.worker_users.empty()) return ok_status();
  Result<UserRange> users = UserRange::parse(words.worker_users);
  if (!users.ok())
    return complain("worker-users", words.worker_users, "none or a range like 60000-60999");
  if (users->any() && geteuid() != 0)
    return complain("worker-users", words.worker_users,
                    "possible: only root's server can start workers as other users");
  if (users->any() && !users->are_there())
    return complain("worker-users", words.worker_users, "possible: this system has no such users");
  if (users->any() && users->count() <= options->workers_ahead)
    return complain("worker-users", words.worker_users,
                    "enough: each guest's worker and each that is kept ready needs one");
  options->worker_users = *users;
  return ok_status();
}

Status interpret_sizes(const ConfigFile& words, DaemonOptions* options) {
  constexpr char kWanted[] = "a size like 512M or 4G";
  if (!words.memory_default.empty()) {
    const auto bytes = parse_size(words.memory_default);
    if (!bytes) return complain("memory-default", words.memory_default, kWanted);
    options->memory_default = *bytes;
  }
  if (!words.headroom.empty()) {
    const auto bytes = parse_size(words.headroom);
    if (!bytes) return complain("headroom", words.headroom, kWanted);
    options->headroom = *bytes;
    options->headroom_given = true;
  }
  return ok_status();
}

// One socket of this host, and any number of addresses on networks.
Status interpret_listen(const ConfigFile& words, DaemonOptions* options) {
  for (const std::string& text : words.listen) {
    const Result<protocol::Address> address = protocol::parse_address(text);
    const bool network = address.ok() && address->kind == protocol::Address::Kind::kTcp;
    const bool local = address.ok() && address->kind == protocol::Address::Kind::kUnix;
    if (network && address->provider.empty() && options->networks.size() < protocol::kNetworksMax) {
      options->networks.push_back(address->to_string());
    } else if (local && options->listen_path.empty()) {
      options->listen_path = address->path;
    } else {
      return complain("listen", text,
                      local ? "possible: there is one unix socket"
                            : "an address like unix:/run/vgpu/vgpud.sock or tcp://0.0.0.0:7470");
    }
  }
  if (options->listen_path.empty()) options->listen_path = protocol::default_listen_address().path;
  options->gate_program = program_folder() + "/vgpu-gate";
  options->server_key = words.server_key;
  options->authorized_keys = words.authorized_keys;
  options->require_encryption = words.require_encryption.value_or(false);
  options->network_grace = words.network_grace.value_or(0);
  if (words.network_grace && (options->network_grace < 1 || options->network_grace > 3600))
    return Status(StatusCode::kInvalidArgument, "network_grace: 1 to 3600 seconds");
  return ok_status();
}

// The program that is meant by a name, as a shell would find it. Empty: there is none.
std::string program_named(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  std::istringstream folders{std::string(env_text("PATH").value_or("/usr/bin:/bin"))};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/" + name;
    if (!folder.empty() && folder.front() == '/' && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

Status interpret_mps(const ConfigFile& words, DaemonOptions* options) {
  const std::string name =
      words.mps_control.empty() ? "nvidia-cuda-mps-control" : words.mps_control;
  if (name.find('/') != std::string::npos && name.front() != '/')
    return complain("mps_control", name, "the name or the absolute path of a program");
  options->mps_program = program_named(name);
  if (options->mps_program.empty() && options->policy.has_mode(SharingMode::kMps))
    return complain("mps_control", name,
                    "a program that can be started, and a profile has mode = \"mps\"");
  return ok_status();
}

Status interpret_words(const ConfigFile& words, DaemonOptions* options) {
  if (!words.scheduler.empty() && !parse_scheduler(words.scheduler, &options->scheduler))
    return complain("scheduler", words.scheduler, "auto, fair, fifo or round-robin");
  if (!words.driver.empty()) options->driver = words.driver;
  const bool named = options->driver == "auto" || options->driver == "nvidia" ||
                     options->driver == "soft" || options->driver.front() == '/';
  if (!named) return complain("driver", options->driver, "auto, nvidia, soft or an absolute path");
  if (!words.socket_mode.empty()) {
    char* end = nullptr;
    options->socket_mode = static_cast<unsigned>(std::strtoul(words.socket_mode.c_str(), &end, 8));
    if (*end != '\0' || options->socket_mode > 0777)
      return complain("socket_mode", words.socket_mode, "a mode like 0660");
  }
  if (!words.log_level.empty()) options->log_level = words.log_level;
  Level level;
  if (!parse_level(options->log_level, &level))
    return complain("log-level", options->log_level, "debug, info, warn, error or off");
  return ok_status();
}

Result<DaemonOptions> interpret(const Raw& raw) {
  Result<ConfigFile> words = merged(raw);
  if (!words.ok()) return words.status();
  DaemonOptions options;
  VGPU_RETURN_IF_ERROR(interpret_counts(*words, &options));
  VGPU_RETURN_IF_ERROR(interpret_users(*words, &options));
  VGPU_RETURN_IF_ERROR(interpret_metrics(*words, &options));
  VGPU_RETURN_IF_ERROR(interpret_sizes(*words, &options));
  VGPU_RETURN_IF_ERROR(interpret_listen(*words, &options));
  VGPU_RETURN_IF_ERROR(interpret_words(*words, &options));
  options.tenants_reach_host_memory = words->tenants_reach_host_memory.value_or(false);
  options.policy = std::move(words->policy);
  VGPU_RETURN_IF_ERROR(options.policy.check_ways_in(!options.networks.empty()));
  VGPU_RETURN_IF_ERROR(interpret_mps(*words, &options));
  options.worker_program = program_folder() + "/vgpu-worker";
  return options;
}

// Says what a configuration means, for --check-config.
void describe(const Raw& raw, const DaemonOptions& options) {
  const Policy& policy = options.policy;
  std::printf("%s: good\n", raw.config.empty() ? "command line" : raw.config.c_str());
  for (const auto& [name, profile] : policy.profiles()) {
    std::printf("  profile %s: %s, %s, weight %u, cap %g %%, priority %s\n", name.c_str(),
                mode_name(profile.mode),
                profile.exclusive           ? "whole devices"
                : profile.memory_bytes == 0 ? "default memory"
                                            : size_text(profile.memory_bytes).c_str(),
                profile.share.weight, profile.share.cap_permille / 10.0,
                priority_name(profile.share.priority));
  }
  if (!policy.divides()) std::printf("  no tenants: one for everybody who may connect\n");
  for (const Tenant& tenant : policy.tenants()) {
    if (!policy.divides()) break;
    std::printf(
        "  tenant %s: %zu users, %zu groups%s, profile %s, %s in all, %s guests\n",
        tenant.name.c_str(), tenant.uids.size(), tenant.gids.size(),
        tenant.token.empty() ? "" : ", by token", tenant.profiles.front().c_str(),
        tenant.memory_bytes == 0 ? "any memory" : size_text(tenant.memory_bytes).c_str(),
        tenant.guests_max == 0 ? "any number of" : std::to_string(tenant.guests_max).c_str());
  }
}

void add_addresses(CLI::App* app, Raw* raw) {
  app->add_option("--listen", raw->words.listen,
                  "Address to listen at: unix:/absolute/path, and any number of tcp://ADDRESS:PORT "
                  "for remote guests (docs/network.md); give it once for each")
      ->allow_extra_args(false);
  app->add_option("--server-key", raw->words.server_key,
                  "This server's key, for tcp:// (default: server.key in ~/.config/vgpu or "
                  "/etc/vgpu; vgpu key create --server)");
  app->add_option("--authorized-keys", raw->words.authorized_keys,
                  "Which keys of guests are admitted over tcp://, and as which tenant (default: "
                  "authorized_keys beside it; vgpu key authorize)");
  app->add_flag_callback(
      "--require-encryption", [raw] { raw->words.require_encryption = true; },
      "Refuse remote guests whose data connection is not encrypted");
  app->add_option("--network-grace", raw->words.network_grace,
                  "Seconds that a remote guest may be silent, or without its data connection, "
                  "before it is ended (1 to 3600; default 30)");
}

void add_sharing(CLI::App* app, Raw* raw) {
  app->add_option(
      "--driver", raw->words.driver,
      "auto (NVIDIA's where a GPU answers, else the software GPU), nvidia, soft, or the "
      "path of a libcuda.so.1");
  app->add_option("--devices", raw->words.devices,
                  "Which of the driver's devices are shared, as CUDA_VISIBLE_DEVICES would list "
                  "them: 0,2 or GPU-uuid,... (default: all)");
  app->add_option(
      "--guest-devices", raw->words.guest_devices,
      "How many devices a guest gets that names none (VGPU_DEVICES): those with the most "
      "memory left, 1 to 16 (default: all)");
  app->add_option("--memory-default", raw->words.memory_default,
                  "Device memory of a guest that names none, on each device: 512M, 4G (default: a "
                  "quarter)");
  app->add_option("--headroom", raw->words.headroom,
                  "Device memory that is never granted (default: 1G with NVIDIA's driver, else 0)");
  app->add_option(
      "--scheduler", raw->words.scheduler,
      "How guests share a device: fair (by weight, class and cap), fifo (first come, first "
      "served), round-robin (a piece of work each, to compare with) or auto (fair where the "
      "driver tells device time, as the software GPU does, else fifo) (default: auto)");
  app->add_flag_callback(
      "--tenants-reach-host-memory", [raw] { raw->words.tenants_reach_host_memory = true; },
      "Serve several tenants even where kernels reach all of their worker's memory (HMM, ATS)");
}

void add_running(CLI::App* app, Raw* raw) {
  app->add_option("--config", raw->config, "Configuration file (TOML); the command line wins")
      ->check(CLI::ExistingFile);
  app->add_flag("--check-config", raw->check,
                "Say what the configuration means, or what is wrong with it, and end");
  app->add_option("--workers-ahead", raw->words.workers_ahead,
                  "Workers kept ready for the next guests, 1 to 64 (default: 2)");
  app->add_option(
      "--worker-users", raw->words.worker_users,
      "Numbers of users that workers run as, each as its own: 60000-60999, or none to run them "
      "as the server's (default: a range that systems leave unused for root, else none)");
  app->add_option("--metrics", raw->words.metrics,
                  "Serve figures for Prometheus at http://ADDRESS:PORT/metrics; a port alone means "
                  "loopback (default: not at all)");
  app->add_option("--socket-mode", raw->words.socket_mode,
                  "Who may connect, as an octal mode of the socket (default: 0600)");
  app->add_option("--log-level", raw->words.log_level,
                  "debug, info, warn, error or off (default: info)");
}

}  // namespace

std::optional<DaemonOptions> read_options(int argc, char** argv, int* exit_code) {
  Raw raw;
  CLI::App app(kAbout, "vgpud");
  app.footer(kExamples);
  app.set_version_flag("--version", kServerVersion);
  add_addresses(&app, &raw);
  add_sharing(&app, &raw);
  add_running(&app, &raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error);
    return std::nullopt;
  }
  Result<DaemonOptions> options = interpret(raw);
  if (!options.ok()) {
    std::fprintf(stderr, "vgpud: %s\n", options.status().text().c_str());
    *exit_code = 2;
    return std::nullopt;
  }
  if (raw.check) {
    describe(raw, *options);
    *exit_code = 0;
    return std::nullopt;
  }
  options->read_again = [raw] { return interpret(raw); };
  return std::move(options).value();
}

}  // namespace vgpu::server
