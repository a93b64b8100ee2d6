// A raw libfabric peer; a gate and a worker that does nothing but copy.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/network/peers.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/mapping.h"
#include "base/stream_copy.h"

namespace vgpu::bench {
namespace {

constexpr int kTimeoutMs = 20'000;

// A child that first says an address and then does its work.
Peer spawn(std::string* address, const std::function<std::string()>& open,
           const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) die("pipe");
  const pid_t pid = ::fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    keep_on_cpu(1);
    const std::string said = open();
    if (::write(ends[1], said.data(), said.size()) < 0) _exit(1);
    ::close(ends[1]);
    work();
    _exit(0);
  }
  ::close(ends[1]);
  char text[256];
  ssize_t bytes = 0;
  while ((bytes = ::read(ends[0], text, sizeof(text))) > 0)
    address->append(text, static_cast<size_t>(bytes));
  ::close(ends[0]);
  return Peer(pid);
}

std::unique_ptr<net::FabricListener> listen(const net::Provider& provider) {
  auto listener = net::FabricListener::open(provider, "127.0.0.1");
  if (!listener.ok()) die(listener.status().to_string());
  return std::move(*listener);
}

// Echoes messages; writes streams back.
class RawEcho final : public net::LinkSink {
 public:
  RawEcho(net::FabricLink* link, std::span<std::byte> window) : link_(link), window_(window) {}
  bool received(std::span<const std::byte> message) override {
    uint64_t words[2];
    std::memcpy(words, message.data(), sizeof(words));
    if (words[0] == kStreamDown) left_ = words[1];
    if (words[0] != kStreamDown) echo(message);
    return true;
  }
  void written(uint64_t /*token*/) override { --flying_; }
  void step() {
    while (left_ > 0 && flying_ < 8) {
      const uint64_t bytes = std::min(left_, net::kWriteBytesMax);
      const uint64_t place = next_ % (window_.size() / net::kWriteBytesMax) * net::kWriteBytesMax;
      if (link_->write(window_.subspan(place, bytes), place, 1) != net::Sent::kDone) return;
      ++flying_;
      ++next_;
      left_ -= bytes;
      const uint64_t end[8] = {kStreamEnd};
      if (left_ == 0) echo(std::as_bytes(std::span(end)));
    }
  }

 private:
  void echo(std::span<const std::byte> message) {
    while (link_->send(message) == net::Sent::kFull) (void)link_->poll(this);
  }
  net::FabricLink* link_;
  std::span<std::byte> window_;
  uint64_t left_ = 0, flying_ = 0, next_ = 0;
};

// Polls all the time while something comes, and then leaves its core to the others.
void serve_raw(net::FabricLink* link, RawEcho* echo) {
  uint64_t last = monotonic_ns();
  for (int happened = 0; happened >= 0; happened = link->poll(echo)) {
    echo->step();
    if (happened > 0) last = monotonic_ns();
    if (monotonic_ns() - last < kRawAwakeNs || !link->may_sleep()) continue;
    pollfd entries[] = {{link->completion_fd(), POLLIN, 0}, {link->event_fd(), POLLIN, 0}};
    (void)::poll(entries, 2, -1);
    last = monotonic_ns();
  }
}

void serve_records(protocol::WorkerChannel* channel, std::span<std::byte> device) {
  protocol::Consumer& consumer = channel->consumer();
  protocol::Record record;
  uint64_t staged = 0;
  for (;;) {
    const protocol::PeekResult result = consumer.peek(&record);
    if (result == protocol::PeekResult::kMalformed) return;
    if (result == protocol::PeekResult::kEmpty) {
      channel->semaphores().raise(protocol::Semaphore::kExecuted, consumer.sequence());
      channel->semaphores().raise(protocol::Semaphore::kSlabRetired, staged);
      (void)consumer.wait();
      continue;
    }
    CopyArgs args{};
    if (record.body.size() >= sizeof(args)) std::memcpy(&args, record.body.data(), sizeof(args));
    const uint64_t place = args.device_offset % (device.size() / 2);
    if (record.header.op == kCopyUp) {
      std::memcpy(device.data() + place, channel->up_slab().data() + args.slab_offset, args.bytes);
      staged = record.sequence;
      channel->semaphores().raise(protocol::Semaphore::kSlabRetired, staged);
    }
    if (record.header.op == kCopyDown)
      std::memcpy(channel->down_slab().data() + args.slab_offset, device.data() + place,
                  args.bytes);
    channel->replies().complete(record.header.reply, 0);
    consumer.release();
  }
}

}  // namespace

void die(const std::string& text) {
  std::fprintf(stderr, "vgpu-bench-network: %s\n", text.c_str());
  std::exit(1);
}

void keep_on_cpu(size_t place) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || place-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)::sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

Peer& Peer::operator=(Peer&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

Peer::~Peer() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

uint64_t Peer::cpu_ns() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/schedstat");
  uint64_t own = 0;
  file >> own;  // of the main thread; the others are its
  uint64_t all = 0;
  std::ifstream stat("/proc/" + std::to_string(pid_) + "/stat");
  std::string word;
  for (int i = 1; stat >> word; ++i) {
    if (i == 14 || i == 15) all += std::strtoull(word.c_str(), nullptr, 10);
  }
  const auto tick_ns = static_cast<uint64_t>(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  return std::max(own, all * tick_ns);
}

RawServer start_raw(const net::Provider& provider, const net::Secret& secret) {
  RawServer server;
  std::unique_ptr<net::FabricListener> listener;
  server.process = spawn(
      &server.address,
      [&] {
        listener = listen(provider);
        return listener->address();
      },
      [&] {
        Result<Mapping> memory = Mapping::map_private(kRawWindowBytes);
        if (!memory.ok()) _exit(1);
        std::memset(memory->data(), 1, memory->size());
        auto link = listener->accept({secret}, {memory->bytes(), memory->bytes()}, kTimeoutMs, -1);
        if (!link.ok()) _exit(1);
        RawEcho echo(link->get(), memory->bytes());
        serve_raw(link->get(), &echo);
      });
  return server;
}

Session start_session(const net::Provider& provider, const net::Secret& secret,
                      const protocol::ChannelSizes& sizes) {
  Session session;
  auto memory = protocol::make_sealed_memory(sizes.total_bytes(), "bench-channel");
  int ends[2];
  if (!memory.ok() || ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) die("no memory");
  std::string ready;
  std::unique_ptr<protocol::WorkerChannel> channel;
  session.worker = spawn(
      &ready,
      [&] {
        ::close(ends[0]);
        auto transport =
            protocol::make_shm(protocol::Role::kWorker, UniqueFd(ends[1]), memory->get(), sizes);
        if (!transport.ok()) _exit(1);
        auto made = protocol::WorkerChannel::create(std::move(*transport));
        if (!made.ok()) _exit(1);
        channel = std::move(*made);
        return std::string("ready");
      },
      [&] {
        std::vector<std::byte> device(kDeviceBytes, std::byte{1});
        serve_records(channel.get(), device);
      });
  std::unique_ptr<net::FabricListener> listener;
  session.gate = spawn(
      &session.address,
      [&] {
        ::close(ends[1]);
        listener = listen(provider);
        return listener->address();
      },
      [&] {
        const net::WorkerEnd worker{memory->get(), ends[0], sizes};
        const Status ended = net::serve_session(std::move(listener), secret, worker, -1);
        if (!ended.ok()) std::fprintf(stderr, "gate: %s\n", ended.to_string().c_str());
      });
  ::close(ends[0]);
  ::close(ends[1]);
  return session;
}

}  // namespace vgpu::bench
