// The process as CUDA sees it: attaching, forking, ending.
// SPDX-License-Identifier: Apache-2.0
#include "shim/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "base/env.h"
#include "base/log.h"
#include "base/quiet_thread.h"
#include "op.h"
#include "protocol/session/guest_token.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/net_plugin.h"
#include "shim/memory/address_claim.h"
#include "shim/server_library.h"
#include "shim/stream_table.h"

namespace vgpu::shim {

// A server inside this process: only the test library vgpu_loop has it.
__attribute__((weak)) protocol::Attachment attach_loop(const protocol::Hello& hello);

std::atomic<Session*> Process::session_{nullptr};

namespace {

constexpr int kAttachTimeoutMs = 10'000;
constexpr uint64_t kClaimBases[] = {0x2000'0000'0000, 0x3800'0000'0000, 0x4000'0000'0000};
constexpr uint64_t kClaimBytes = uint64_t{8} << 40;

SpinMutex g_initialize_mutex;
enum class Outcome : uint8_t { kNotAsked, kAttached, kRefused, kForked };
Outcome g_outcome = Outcome::kNotAsked;  // under g_initialize_mutex
CUresult g_refusal = CUDA_SUCCESS;
int g_liveness_fd = -1;

std::string executable_name() {
  char path[256];
  const ssize_t bytes = ::readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (bytes <= 0) return "?";
  path[bytes] = '\0';
  const std::string whole(path);
  return whole.substr(whole.rfind('/') + 1);
}

// Holds the ranges that the server may choose from, so that no pointer of the application can lie
// in them.
std::vector<protocol::AddressRange> claim_ranges() {
  std::vector<protocol::AddressRange> claimed;
  for (const uint64_t base : kClaimBases) {
    if (claim_addresses(base, kClaimBytes + protocol::kHostRangeBytes)) {
      claimed.push_back({base, kClaimBytes});
    }
  }
  return claimed;
}

void release_around(const protocol::AddressRange& claimed, const protocol::AddressRange& kept) {
  if (!protocol::is_part_of(kept, claimed)) return release_addresses(claimed.base, claimed.bytes);
  const uint64_t before = kept.base - claimed.base;
  if (before != 0) release_addresses(claimed.base, before);
  if (const uint64_t behind = claimed.bytes - before - kept.bytes; behind != 0)
    release_addresses(kept.base + kept.bytes, behind);
}

// Lets go of what the server did not choose.
void release_ranges(const std::vector<protocol::AddressRange>& claimed,
                    const protocol::HelloReply& reply) {
  for (const protocol::AddressRange& device : claimed) {
    release_around(device, reply.device_range);
    release_around(protocol::host_range_behind(device), reply.host_range);
  }
}

// Percent with decimals; what is none is a number that the server refuses with the reason.
uint32_t cap_permille(std::string_view text) {
  double percent = 0;
  const std::string number(text);
  char* end = nullptr;
  percent = std::strtod(number.c_str(), &end);
  const bool good = end != number.c_str() && (*end == '\0' || *end == '%') && percent >= 0.1;
  return good && percent <= 100 ? static_cast<uint32_t>(percent * 10 + 0.5) : UINT32_MAX;
}

// As the server's classes are numbered, from 1; what is none likewise.
uint32_t priority_number(std::string_view name) {
  constexpr std::string_view kNames[] = {"system", "latency", "normal", "spot"};
  for (uint32_t i = 0; i < 4; ++i) {
    if (kNames[i] == name) return i + 1;
  }
  return UINT32_MAX;
}

// What the guest wants to be: within its tenant's profiles the server gives it.
void ask_for_share(protocol::Hello* hello) {
  if (const auto profile = env_text("VGPU_PROFILE")) hello->profile = *profile;
  hello->token = protocol::guest_token();
  // What is no number, here and below, the server refuses with the reason.
  if (env_text("VGPU_SHARE"))
    hello->weight = static_cast<uint32_t>(
        std::clamp<int64_t>(env_integer("VGPU_SHARE", UINT32_MAX), 1, UINT32_MAX));
  if (const auto cap = env_text("VGPU_CAP")) hello->cap_permille = cap_permille(*cap);
  if (const auto name = env_text("VGPU_PRIORITY")) hello->priority = priority_number(*name);
}

// Which devices: the server picks them, so that it grants memory of no others.
void ask_for_devices(protocol::Hello* hello) {
  if (is_one_of_several()) return;  // the router picks among all servers'
  if (const auto devices = env_text("VGPU_DEVICES"); devices && *devices != "all")
    hello->devices = *devices;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    hello->visible_devices = visible;
    hello->flags |= protocol::kHelloDevicesListed;
  }
  if (const auto order = env_text("CUDA_DEVICE_ORDER"); order && *order == "PCI_BUS_ID")
    hello->flags |= protocol::kHelloPciOrder;
}

protocol::Hello make_hello() {
  protocol::Hello hello;
  hello.wire_hash = kWireHash;
  hello.pid = ::getpid();
  hello.executable = executable_name();
  if (const auto name = env_text("VGPU_NAME")) hello.label = *name;
  hello.memory_bytes = env_size("VGPU_MEM", 0);
  if (const auto mode = env_text("VGPU_ALLOCATOR"); mode && *mode == "forward") {
    hello.flags |= protocol::kHelloForwardAllocator;
  }
  hello.shim_version = VGPU_VERSION;
  ask_for_devices(&hello);
  ask_for_share(&hello);
  return hello;
}

// Ends every wait when the server goes. Sleeps in poll; no signal of the application's is taken
// here.
void* watch(void* argument) {
  auto* session = static_cast<Session*>(argument);
  pollfd entry{session->channel().transport().liveness_fd(), POLLRDHUP, 0};
  while ((entry.revents & (POLLHUP | POLLERR | POLLNVAL | POLLRDHUP)) == 0) ::poll(&entry, 1, -1);
  session->channel().mark_dead();
  VGPU_LOG_WARN("the server is gone");
  return nullptr;
}

// False: without the thread nobody would notice the server's end, and calls would wait for ever.
// Its stack has the usual size, little of it ever touched: a small one may not even hold the
// thread-local variables of the program's libraries.
bool start_watcher(Session* session) {
  g_liveness_fd = session->channel().transport().liveness_fd();
  if (g_liveness_fd < 0) return true;
  return start_quiet_thread(watch, session) == 0;
}

void say(const std::string& text) {
  const std::string line = "vgpu: " + text + "\n";
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  (void)written;
}

// The program's own doing, of which a driver says nothing.
bool hides_all(const protocol::Attachment& attachment, const protocol::Hello& hello) {
  const bool hidden = attachment.status.code() == StatusCode::kRefused &&
                      attachment.cuda_error == protocol::kCudaNoDevice &&
                      (hello.flags & protocol::kHelloDevicesListed) != 0 &&
                      attachment.status.text().find("CUDA_VISIBLE_DEVICES") != std::string::npos;
  if (hidden) VGPU_LOG_WARN("%s", attachment.status.text().c_str());
  return hidden;
}

// Only then is anything loaded that a local guest has no need of.
protocol::Attachment attach_over_network(const protocol::Address& address,
                                         const protocol::Hello& hello) {
  const auto plugin = protocol::load_net_plugin(network_plugin());
  if (plugin.ok()) return protocol::attach_by_plugin(**plugin, address, hello, kAttachTimeoutMs);
  protocol::Attachment attachment;
  attachment.status = plugin.status();
  attachment.cuda_error = protocol::kCudaNoDevice;
  return attachment;
}

CUresult attach() {
  Result<protocol::Address> address = server_address();
  if (!address.ok()) {
    say(address.status().text());
    return CUDA_ERROR_NO_DEVICE;
  }
  protocol::Hello hello = make_hello();
  protocol::Attachment attachment;
  if (address->kind == protocol::Address::Kind::kLoop) {
    if (attach_loop == nullptr) {
      say("no server inside this process (loop:)");
      return CUDA_ERROR_NO_DEVICE;
    }
    attachment = attach_loop(hello);
  } else {
    hello.device_ranges = claim_ranges();
    if (address->kind == protocol::Address::Kind::kTcp) hello.flags |= protocol::kHelloRemote;
    attachment = address->kind == protocol::Address::Kind::kTcp
                     ? attach_over_network(*address, hello)
                     : protocol::attach(*address, hello, kAttachTimeoutMs);
    release_ranges(hello.device_ranges, attachment.reply);
  }
  if (hides_all(attachment, hello)) return CUDA_ERROR_NO_DEVICE;
  if (!attachment.status.ok() || attachment.channel == nullptr) {
    say("no vGPU from " + address->to_string() + ": " + attachment.status.text());
    return attachment.cuda_error != 0 ? static_cast<CUresult>(attachment.cuda_error)
                                      : CUDA_ERROR_NO_DEVICE;
  }
  auto* session =
      new (std::nothrow) Session(std::move(attachment.reply), std::move(attachment.channel));
  if (session == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const Status opened = session->open(); !opened.ok()) {
    say(opened.text());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!start_watcher(session)) {
    say("no thread to watch the server");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  publish_session(session);
  return CUDA_SUCCESS;
}

// Registered when the driver is initialised, as NVIDIA's does: later calls of the process, from
// static destructors for example, hear that the driver is shutting down.
void end_at_exit() {
  if (Session* session = Process::session(); session != nullptr) session->end();
}

void write_stats_at_exit() {
  if (Session* session = Process::session(); session != nullptr)
    write_stats(session->stats(), session->channel().producer().written());
}

}  // namespace

// In the child of a fork: nothing of the parent's session may be touched, and its connection must
// not be held open.
void forget_session_in_child() {
  g_initialize_mutex.reset_after_fork();
  if (Process::session_.exchange(nullptr, std::memory_order_relaxed) == nullptr) return;
  if (g_liveness_fd >= 0) ::close(g_liveness_fd);
  g_outcome = Outcome::kForked;
}

void publish_session(Session* session) { Process::publish(session); }

void Process::publish(Session* session) {
  ::pthread_atfork(nullptr, nullptr, forget_session_in_child);
  set_thread_end_hook(end_default_streams);
  // release: partner is the acquire in session().
  session_.store(session, std::memory_order_release);
  std::atexit(end_at_exit);
  if (env_text("VGPU_STATS")) std::atexit(write_stats_at_exit);
}

CUresult Process::initialize() {
  if (session() != nullptr) return CUDA_SUCCESS;
  g_initialize_mutex.lock();
  if (g_outcome == Outcome::kNotAsked) {
    g_refusal = attach();
    g_outcome = g_refusal == CUDA_SUCCESS ? Outcome::kAttached : Outcome::kRefused;
  }
  const CUresult result = g_outcome == Outcome::kForked ? CUDA_ERROR_NOT_INITIALIZED : g_refusal;
  g_initialize_mutex.unlock();
  return result;
}

}  // namespace vgpu::shim
