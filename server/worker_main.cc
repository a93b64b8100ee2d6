// vgpu-worker: owns one guest's device contexts and nothing else. Started by vgpud.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/mapping.h"
#include "base/time_slice.h"
#include "protocol/session/handshake.h"
#include "server/device_facts.h"
#include "server/driver_choice.h"
#include "server/guest_papers.h"
#include "server/liveness.h"
#include "server/log.h"
#include "server/output.h"
#include "server/packed_worker.h"
#include "server/sandbox.h"
#include "server/serve.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace vgpu::server {
namespace {

// Exit codes, which vgpud writes into its log.
enum Exit : int {
  kExitDone = 0,
  kExitUsage = 2,
  kExitNoDriver = 3,
  kExitSandbox = 4,
  kExitAttach = 5,
  kExitMalformed = 6,
  kExitDriverFailed = 7,
};

struct Options {
  int control = -1, door = -1;
  uid_t user = 0;
  std::string driver = "auto";
  std::string devices;
  std::string log_level = "info";
  SharingMode mode = SharingMode::kIsolated;
  uint64_t launch_ms = 0;  // how long kernels of packed guests may run; 0: for ever
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--control") {
      options->control = std::atoi(argv[i + 1]);
    } else if (name == "--driver") {
      options->driver = argv[i + 1];
    } else if (name == "--devices") {
      options->devices = argv[i + 1];
    } else if (name == "--door") {
      options->door = std::atoi(argv[i + 1]);
    } else if (name == "--user") {
      options->user = static_cast<uid_t>(std::strtoul(argv[i + 1], nullptr, 10));
    } else if (name == "--mode") {
      const std::optional<SharingMode> mode = mode_named(argv[i + 1]);
      if (!mode) return false;
      options->mode = *mode;
    } else if (name == "--launch-ms") {
      options->launch_ms = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--log-level") {
      options->log_level = argv[i + 1];
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && options->control == 3 && options->door == 4;
}

struct Page {
  UniqueFd memory;
  Mapping mapping;
  WorkerPage* page() const { return reinterpret_cast<WorkerPage*>(mapping.data()); }
};

Result<Page> make_page() {
  Page page;
  Result<UniqueFd> memory = protocol::make_sealed_memory(kWorkerPageBytes, "vgpu-worker-page");
  if (!memory.ok()) return memory.status();
  page.memory = std::move(memory).value();
  Result<Mapping> mapping = Mapping::map_shared(page.memory.get(), kWorkerPageBytes);
  if (!mapping.ok()) return mapping.status();
  page.mapping = std::move(mapping).value();
  return page;
}

// Waits for vgpud to hand over a guest. Ends the process when vgpud goes first.
Result<GuestPapers> wait_for_guest(int control) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(control, -1);
  if (!frame.ok()) {
    if (frame.status().code() == StatusCode::kUnavailable) _exit(kExitDone);
    return frame.status();
  }
  return GuestPapers::read(std::move(frame).value(), 3);
}

void start_watching(UniqueFd door, uid_t server_user, UniqueFd control, const GuestPapers& guest,
                    Page* page, int connection, WorkerPeers* peers, Steering* steering,
                    TurnLink* turns, Leaving* leaving) {
  Liveness liveness = guest.liveness();
  liveness.leaving = leaving;
  liveness.steering = steering;
  liveness.turns = turns;
  liveness.peers = peers;
  liveness.connection = connection;
  liveness.control = std::move(control);
  liveness.page = std::move(page->memory);
  liveness.door = std::move(door);
  liveness.server_user = server_user;
  if (guest.is_gone()) _exit(kExitDone);
  watch(std::move(liveness));
}

int fail(int code, const char* what, const Status& status) {
  log(Level::kError, "%s: %s", what, status.to_string().c_str());
  return code;
}

int exit_code(SessionEnd end) {
  switch (end) {
    case SessionEnd::kMalformed:
      return kExitMalformed;
    case SessionEnd::kDriverFailed:
      return kExitDriverFailed;
    case SessionEnd::kGuestGone:
      break;
  }
  return kExitDone;
}

WorkerReady describe(const DriverChoice& driver, const Devices& devices) {
  WorkerReady ready;
  ready.driver_version = devices.driver_version();
  ready.driver_kind = static_cast<int32_t>(driver.kind);
  set_text(ready.driver_path, driver.path);
  set_text(ready.why, driver.why);
  ready.device_count = static_cast<uint32_t>(devices.count());
  for (size_t i = 0; i < devices.count(); ++i) {
    const Device& device = *devices.at(i);
    const DeviceIdentity identity = device.identity();
    ServedDevice& out = ready.devices[i];
    out.memory_bytes = device.memory_bytes();
    std::copy(identity.uuid.begin(), identity.uuid.end(), out.uuid);
    set_text(out.pci_bus_id, identity.pci_bus_id);
    set_text(out.name, device.name());
    out.ordinal = device.number();
    out.reaches_host_memory = reaches_host_memory(driver.table, device.number());
    const auto facts = device_facts(driver.table, device.number());
    std::copy(facts.begin(), facts.end(), out.facts);
  }
  return ready;
}

int serve(const Options& options, UniqueFd control, UniqueFd door) {
  Result<DriverChoice> driver = choose_driver(options.driver);
  if (!driver.ok()) return fail(kExitNoDriver, "no driver", driver.status());
  Result<Devices> devices = Devices::open(&driver->table, options.devices);
  if (!devices.ok()) return fail(kExitNoDriver, driver->path.c_str(), devices.status());
  if (options.mode != SharingMode::kPacked) devices->reserve_ahead();
  Result<Page> page = make_page();
  if (!page.ok()) return fail(kExitAttach, "page", page.status());

  const WorkerReady ready = describe(*driver, *devices);
  // Before the first byte of a guest, and before vgpud takes the worker for a good one.
  const uid_t server_user = geteuid();
  Sandbox sandbox{driver->kind, options.user, {}, options.mode != SharingMode::kIsolated};
  // Told before the user changes: the usual place is another one for the worker's own.
  if (const std::string cache = compiled_kernels_folder(); !cache.empty()) {
    sandbox.readable.push_back(cache);
    (void)setenv("VGPU_SOFTGPU_CACHE", cache.c_str(), 1);
  }
  if (Status entered = enter_sandbox(sandbox); !entered.ok()) {
    return fail(kExitSandbox, "sandbox", entered);
  }
  const int page_fd = page->memory.get();
  if (Status sent =
          protocol::send_frame(control.get(), bytes_of(ready), std::span<const int>(&page_fd, 1));
      !sent.ok()) {
    return fail(kExitAttach, "vgpud", sent);
  }
  if (options.mode == SharingMode::kPacked) {
    return serve_packed({&*driver, options.devices, options.launch_ms, server_user}, control.get());
  }
  Result<GuestPapers> guest = wait_for_guest(control.get());
  if (!guest.ok()) return fail(kExitAttach, "guest", guest.status());
  if (Status granted = grant_devices(&*devices, guest->assign.grants); !granted.ok())
    return fail(kExitNoDriver, "devices", granted);
  protocol::HelloReply reply =
      make_reply(&*devices, guest->hello, guest->assign.session, driver_kind_name(driver->kind));
  reply.limits = guest->assign.record.limits;
  const int connection = guest->connection.get();
  Result<std::unique_ptr<protocol::WorkerChannel>> channel =
      open_channel(*devices, std::move(guest->connection), guest->hello, &reply);
  if (!channel.ok()) return fail(kExitAttach, "attach", channel.status());
  static WorkerPeers peers;  // its threads may be anywhere in it when the process ends
  static Steering steering;
  static Leaving leaving(options.mode == SharingMode::kMps);
  static TurnLink turns(page->page()->turns);
  if (Status taken = turns.connect(std::move(guest->board), std::move(guest->bell)); !taken.ok())
    return fail(kExitAttach, "board", taken);
  start_watching(std::move(door), server_user, std::move(control), *guest, &*page, connection,
                 &peers, &steering, &turns, &leaving);
  // From here on the process just ends: threads of the session may still wait for the device.
  ServeOptions serving;
  serving.page = page->page();
  serving.peers = &peers;
  serving.shares = &peers.shares();
  serving.steering = &steering;
  if (turns.board().mode.load(std::memory_order_relaxed) != TurnMode::kNever)
    serving.turns = &turns;
  leaving.leave(exit_code(serve_guest(&driver->table, &*devices, reply, channel->get(), serving)));
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(
        stderr,
        "vgpu-worker serves one guest. vgpud starts it; there is nothing to run by hand.\n"
        "usage: vgpu-worker --control 3 --door 4 [--driver auto|nvidia|soft|PATH] [--devices LIST] "
        "[--user UID] [--mode isolated|mps|packed] [--launch-ms N] [--log-level "
        "debug|info|warn|error]\n");
    return kExitUsage;
  }
  close_descriptors(options.door + 1);
  fcntl(options.control, F_SETFD, FD_CLOEXEC);
  fcntl(options.door, F_SETFD, FD_CLOEXEC);
  signal(SIGPIPE, SIG_IGN);
  use_short_time_slices();  // what its guest and vgpud wait for comes before kernels' blocks
  Level level = Level::kInfo;
  parse_level(options.log_level, &level);
  // What is written to standard output and error from here on is the guest's: kernels print there.
  const int log_descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  open_log("vgpu-worker", level, log_descriptor < 0 ? STDERR_FILENO : log_descriptor);
  // Whose kernel it was that has printed nobody can say of packed guests.
  const Status taken =
      options.mode == SharingMode::kPacked ? drop_output() : process_output().take_over();
  if (!taken.ok()) {
    return fail(kExitAttach, "standard output", taken);
  }
  // But what a library says when it gives up the process is for whoever reads the log.
  spill_output_at_death(log_descriptor);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<intptr_t>(log_descriptor)));
#endif
  // No destructors, no exit handlers: the driver's threads may be anywhere.
  _exit(serve(options, UniqueFd(options.control), UniqueFd(options.door)));
}

}  // namespace
}  // namespace vgpu::server

int main(int argc, char** argv) { return vgpu::server::run(argc, argv); }
