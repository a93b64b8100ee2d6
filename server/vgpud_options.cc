// CLI11 and toml++: the edge of the server where libraries may throw.
// SPDX-License-Identifier: Apache-2.0
#include "server/vgpud_options.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/env.h"
#include "protocol/transport/connect.h"
#include "server/attach.h"
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
    "Signals: TERM or INT stop the server; guests that run go on, and a server started later at "
    "the "
    "same\naddress takes them over. `vgpu stop --force` ends the guests as well.";

struct Raw {
  std::vector<std::string> listen;
  std::string server_key, authorized_keys;
  std::optional<bool> require_encryption;
  std::string driver, devices, config, memory_default, headroom, log_level, socket_mode,
      worker_users, metrics;
  std::optional<int64_t> workers_ahead, guest_devices;
};

constexpr int64_t kWorkersAheadMax = 64;

bool wrong_type(const Raw& raw, const char* key, const char* wanted) {
  std::fprintf(stderr, "vgpud: %s: '%s' must be %s\n", raw.config.c_str(), key, wanted);
  return false;
}

// Fills what the command line has left open.
bool fill(const Raw& raw, std::string* field, const toml::table& table, const char* key) {
  if (!table.contains(key)) return true;
  const auto text = table[key].value_exact<std::string>();
  if (!text) return wrong_type(raw, key, "text in quotes");
  if (field->empty()) *field = *text;
  return true;
}

bool fill(const Raw& raw, std::optional<int64_t>* field, const toml::table& table,
          const char* key) {
  if (!table.contains(key)) return true;
  const auto number = table[key].value_exact<int64_t>();
  if (!number) return wrong_type(raw, key, "a whole number");
  if (!*field) *field = *number;
  return true;
}

bool fill(const Raw& raw, std::optional<bool>* field, const toml::table& table, const char* key) {
  if (!table.contains(key)) return true;
  const auto value = table[key].value_exact<bool>();
  if (!value) return wrong_type(raw, key, "true or false");
  if (!*field) *field = *value;
  return true;
}

// One text, or a list of them.
bool fill(const Raw& raw, std::vector<std::string>* field, const toml::table& table,
          const char* key) {
  if (!table.contains(key)) return true;
  std::vector<std::string> texts;
  if (const auto text = table[key].value_exact<std::string>()) texts.push_back(*text);
  if (const toml::array* list = table[key].as_array()) {
    for (const auto& each : *list) {
      if (const auto text = each.value_exact<std::string>()) texts.push_back(*text);
    }
    if (texts.size() != list->size()) texts.clear();
  }
  if (texts.empty()) return wrong_type(raw, key, "text in quotes, or a list of such");
  if (field->empty()) *field = texts;
  return true;
}

bool fill_all(Raw* raw, const toml::table& table) {
  return fill(*raw, &raw->workers_ahead, table, "workers_ahead") &&
         fill(*raw, &raw->guest_devices, table, "guest_devices") &&
         fill(*raw, &raw->devices, table, "devices") && fill(*raw, &raw->listen, table, "listen") &&
         fill(*raw, &raw->driver, table, "driver") &&
         fill(*raw, &raw->memory_default, table, "memory_default") &&
         fill(*raw, &raw->headroom, table, "headroom") &&
         fill(*raw, &raw->log_level, table, "log_level") &&
         fill(*raw, &raw->worker_users, table, "worker_users") &&
         fill(*raw, &raw->metrics, table, "metrics") &&
         fill(*raw, &raw->server_key, table, "server_key") &&
         fill(*raw, &raw->authorized_keys, table, "authorized_keys") &&
         fill(*raw, &raw->require_encryption, table, "require_encryption") &&
         fill(*raw, &raw->socket_mode, table, "socket_mode");
}

bool read_config(Raw* raw) {
  if (raw->config.empty()) return true;
  static constexpr const char* kKeys[] = {
      "listen",      "driver",        "memory_default",  "headroom",          "log_level",
      "socket_mode", "workers_ahead", "devices",         "guest_devices",     "worker_users",
      "metrics",     "server_key",    "authorized_keys", "require_encryption"};
  try {
    const toml::table table = toml::parse_file(raw->config);
    for (const auto& [key, value] : table) {
      const bool known =
          std::find(std::begin(kKeys), std::end(kKeys), std::string(key.str())) != std::end(kKeys);
      if (!known) {
        std::fprintf(stderr, "vgpud: %s: unknown key '%s'\n", raw->config.c_str(),
                     std::string(key.str()).c_str());
        return false;
      }
    }
    return fill_all(raw, table);
  } catch (const toml::parse_error& error) {
    std::fprintf(stderr, "vgpud: %s: %s (line %u)\n", raw->config.c_str(),
                 std::string(error.description()).c_str(), error.source().begin.line);
    return false;
  }
}

bool complain(const char* what, const std::string& text, const char* wanted) {
  std::fprintf(stderr, "vgpud: %s: '%s' is not %s\n", what, text.c_str(), wanted);
  return false;
}

bool interpret_metrics(const Raw& raw, DaemonOptions* options) {
  if (raw.metrics.empty()) return true;
  options->metrics = metrics_address(raw.metrics);
  return !options->metrics.empty() ||
         complain("metrics", raw.metrics, "a port, or an address like 127.0.0.1:19464");
}

bool interpret_devices(const Raw& raw, DaemonOptions* options) {
  options->devices = raw.devices == "all" ? "" : raw.devices;
  if (options->devices.size() > protocol::kTextBytesMax)
    return complain("devices", raw.devices, "a list of devices");
  if (const auto number = raw.guest_devices) {
    if (*number < 1 || *number > static_cast<int64_t>(protocol::kDevicesMax))
      return complain("guest-devices", std::to_string(*number), "a number from 1 to 16");
    options->guest_devices = static_cast<unsigned>(*number);
  }
  return true;
}

bool interpret_users(const Raw& raw, DaemonOptions* options) {
  options->worker_users = WorkerUsers::by_default();
  if (raw.worker_users.empty()) return true;
  Result<WorkerUsers> users = WorkerUsers::parse(raw.worker_users);
  if (!users.ok())
    return complain("worker-users", raw.worker_users, "none or a range like 60000-60999");
  if (users->any() && geteuid() != 0)
    return complain("worker-users", raw.worker_users,
                    "possible: only root's server can start workers as other users");
  options->worker_users = *users;
  return true;
}

// One socket of this host, and any number of addresses on networks.
bool interpret_listen(const Raw& raw, DaemonOptions* options) {
  options->listen_path.clear();
  for (const std::string& text : raw.listen) {
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
  options->server_key = raw.server_key;
  options->authorized_keys = raw.authorized_keys;
  options->require_encryption = raw.require_encryption.value_or(false);
  return true;
}

bool interpret(const Raw& raw, DaemonOptions* options) {
  if (!interpret_devices(raw, options) || !interpret_users(raw, options) ||
      !interpret_metrics(raw, options) || !interpret_listen(raw, options)) {
    return false;
  }
  if (const auto ahead = raw.workers_ahead) {
    if (*ahead < 1 || *ahead > kWorkersAheadMax) {
      return complain("workers-ahead", std::to_string(*ahead), "a number from 1 to 64");
    }
    options->workers_ahead = static_cast<unsigned>(*ahead);
  }
  if (!raw.driver.empty()) options->driver = raw.driver;
  const bool named = options->driver == "auto" || options->driver == "nvidia" ||
                     options->driver == "soft" || options->driver.front() == '/';
  if (!named) return complain("driver", options->driver, "auto, nvidia, soft or an absolute path");
  if (!raw.memory_default.empty()) {
    const auto bytes = parse_size(raw.memory_default);
    if (!bytes) return complain("memory-default", raw.memory_default, "a size like 512M or 4G");
    options->memory_default = *bytes;
  }
  if (!raw.headroom.empty()) {
    const auto bytes = parse_size(raw.headroom);
    if (!bytes) return complain("headroom", raw.headroom, "a size like 512M or 4G");
    options->headroom = *bytes;
    options->headroom_given = true;
  }
  if (!raw.socket_mode.empty()) {
    char* end = nullptr;
    options->socket_mode = static_cast<unsigned>(std::strtoul(raw.socket_mode.c_str(), &end, 8));
    if (*end != '\0' || options->socket_mode > 0777) {
      return complain("socket_mode", raw.socket_mode, "a mode like 0660");
    }
  }
  if (!raw.log_level.empty()) options->log_level = raw.log_level;
  Level level;
  if (!parse_level(options->log_level, &level)) {
    return complain("log-level", options->log_level, "debug, info, warn, error or off");
  }
  options->worker_program = program_folder() + "/vgpu-worker";
  return true;
}

}  // namespace

std::optional<DaemonOptions> read_options(int argc, char** argv, int* exit_code) {
  Raw raw;
  CLI::App app(kAbout, "vgpud");
  app.footer(kExamples);
  app.set_version_flag("--version", kServerVersion);
  app.add_option("--listen", raw.listen,
                 "Address to listen at: unix:/absolute/path, and any number of tcp://ADDRESS:PORT "
                 "for remote guests (docs/network.md); give it once for each")
      ->allow_extra_args(false);
  app.add_option("--server-key", raw.server_key,
                 "This server's key, for tcp:// (default: server.key in ~/.config/vgpu or "
                 "/etc/vgpu; vgpu key create --server)");
  app.add_option("--authorized-keys", raw.authorized_keys,
                 "Which keys of guests are admitted over tcp://, and as which tenant (default: "
                 "authorized_keys beside it; vgpu key authorize)");
  app.add_flag_callback(
      "--require-encryption", [&raw] { raw.require_encryption = true; },
      "Refuse remote guests whose data connection is not encrypted");
  app.add_option("--driver", raw.driver,
                 "auto (NVIDIA's where a GPU answers, else the software GPU), nvidia, soft, or the "
                 "path of a libcuda.so.1");
  app.add_option("--devices", raw.devices,
                 "Which of the driver's devices are shared, as CUDA_VISIBLE_DEVICES would list "
                 "them: 0,2 or GPU-uuid,... (default: all)");
  app.add_option(
      "--guest-devices", raw.guest_devices,
      "How many devices a guest gets that names none (VGPU_DEVICES): those with the most "
      "memory left, 1 to 16 (default: all)");
  app.add_option("--config", raw.config, "Configuration file (TOML); the command line wins")
      ->check(CLI::ExistingFile);
  app.add_option("--memory-default", raw.memory_default,
                 "Device memory of a guest that names none, on each device: 512M, 4G (default: a "
                 "quarter)");
  app.add_option("--headroom", raw.headroom,
                 "Device memory that is never granted (default: 1G with NVIDIA's driver, else 0)");
  app.add_option("--workers-ahead", raw.workers_ahead,
                 "Workers kept ready for the next guests, 1 to 64 (default: 2)");
  app.add_option(
      "--worker-users", raw.worker_users,
      "Numbers of users that workers run as, each as its own: 60000-60999, or none to run them "
      "as the server's (default: a range that systems leave unused for root, else none)");
  app.add_option("--socket-mode", raw.socket_mode,
                 "Who may connect, as an octal mode of the socket (default: 0600)");
  app.add_option("--metrics", raw.metrics,
                 "Serve figures for Prometheus at http://ADDRESS:PORT/metrics; a port alone means "
                 "loopback (default: not at all)");
  app.add_option("--log-level", raw.log_level, "debug, info, warn, error or off (default: info)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error);
    return std::nullopt;
  }
  DaemonOptions options;
  if (!read_config(&raw) || !interpret(raw, &options)) {
    *exit_code = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace vgpu::server
