// Children over the loopback network, and how often they waited.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/bench_network.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <stdexcept>

#include "base/unique_fd.h"
#include "tools/vgpu/private_server.h"
#include "tools/vgpu/relay.h"
#include "tools/vgpu/stats.h"

namespace vgpu::tools {
namespace {

constexpr int kChildMsMax = 120'000;
// Of a data connection, by its protocol: TCP's own, the request that shows the secret, the windows.
constexpr int kDataConnectionTrips = 3;
constexpr int kSteps = 100;

uint16_t free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), name, bytes) != 0 || ::getsockname(socket.get(), name, &bytes) != 0)
    throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

std::string address_of(uint16_t port) { return "tcp://127.0.0.1:" + std::to_string(port); }

// A guest with a key, a server that admits it.
class RemoteBench {
 public:
  explicit RemoteBench(const Places& places)
      : places_(places),
        server_key_(vgpu({"key", "create", "--server", "--file", file("server.key")})),
        port_(admit()),
        server_(places, folder_.path(), "soft", supervisor_,
                {"--listen", address_of(port_), "--server-key", file("server.key"),
                 "--authorized-keys", file("authorized_keys")}),
        relay_(port_) {}

  // The guest's own count after its attach, and what the control connection took.
  struct Trips {
    double guest = 0, control = 0;
  };
  Trips run(const std::vector<std::string>& arguments) {
    GuestSettings settings;
    settings.server = address_of(relay_.port());
    settings.stats = file("stats.json");
    Environment environment = guest_environment(current_environment(), settings, places_);
    environment["VGPU_KEY"] = file("guest.key");
    environment["VGPU_SERVER_KEY"] = server_key_;
    std::vector<std::string> command = {places_.bench_guest};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ChildOutcome outcome = run_child(command, environment, kChildMsMax, supervisor_);
    const GuestStats stats = take_stats(settings.stats);
    if (outcome.exit_code != 0 || !stats.round_trips) {
      throw std::runtime_error("a remote " + arguments.front() + " did not run: " + outcome.output +
                               outcome.errors);
    }
    return {static_cast<double>(*stats.round_trips) - 1, static_cast<double>(relay_.round_trips())};
  }

 private:
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string vgpu(std::vector<std::string> command) {
    command.insert(command.begin(), program_folder() + "/vgpu");
    const ChildOutcome outcome =
        run_child(command, current_environment(), kChildMsMax, supervisor_);
    if (outcome.exit_code != 0) throw std::runtime_error(outcome.errors);
    return outcome.output.substr(0, outcome.output.find('\n'));
  }
  uint16_t admit() {
    const std::string own = vgpu({"key", "create", "--file", file("guest.key")});
    (void)vgpu({"key", "authorize", own, "bench", "--file", file("authorized_keys")});
    return free_port();
  }

  const Places& places_;
  const Supervisor supervisor_;
  TemporaryFolder folder_;
  std::string server_key_;
  uint16_t port_;
  PrivateServer server_;
  Relay relay_;
};

}  // namespace

std::vector<CountedRow> count_remote_trips(const Places& places) {
  RemoteBench bench(places);
  const RemoteBench::Trips first = bench.run({"kernel"});
  const double none = bench.run({"steps", "0"}).guest;
  const double many = bench.run({"steps", std::to_string(kSteps)}).guest;
  return {{"round trips, attach to first kernel", "<= 4", first.guest},
          {"the same, with connecting and CURVE", "<= 10",
           first.control + kDataConnectionTrips + first.guest},
          {"round trips of copy in, launch, copy out", "1", (many - none) / kSteps}};
}

}  // namespace vgpu::tools
