// Making connections: endpoints, registrations, the secret, the exchange of windows.
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "net/fabric/fabric.h"
#include "net/fabric/messages.h"

namespace vgpu::net {
namespace {

constexpr uint32_t kPrivateMagic = 0x4e504776;  // "vGPN"
constexpr int kStepMs = 50;                     // of waiting for events

// In the connection request. Small enough for every connection manager (InfiniBand: 56 bytes).
struct PrivateData {
  uint32_t magic;
  uint32_t version;
  Secret secret;
};
static_assert(sizeof(PrivateData) == 40);

// An event of the connection manager with what came beside it.
struct CmEvent {
  static constexpr size_t kBesideMax = 256;
  alignas(fi_eq_cm_entry) uint8_t bytes[sizeof(fi_eq_cm_entry) + kBesideMax] = {};
  const fi_eq_cm_entry& entry() const { return *reinterpret_cast<const fi_eq_cm_entry*>(bytes); }
};

Status failed(const char* what, ssize_t result) {
  return Status(StatusCode::kUnavailable,
                std::string(what) + ": " + fi_strerror(static_cast<int>(-result)));
}

// "host:port" with the port behind the last colon; hosts of IPv6 may stand in brackets.
bool split(const std::string& address, std::string* host, std::string* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  *host = address.substr(0, colon);
  *port = address.substr(colon + 1);
  if (host->size() > 2 && host->front() == '[' && host->back() == ']')
    *host = host->substr(1, host->size() - 2);
  return !port->empty();
}

Result<Info> find(const Provider& provider, const std::string& host, const std::string& port,
                  bool listens) {
  Info hints(fi_allocinfo());
  if (hints == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
  hints->fabric_attr->prov_name = ::strdup(provider.name.c_str());
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  // A message tells of writes before it.
  hints->tx_attr->msg_order = FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS;
  hints->addr_format = host.find(':') == std::string::npos ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
  fi_info* found = nullptr;
  const int result = fi_getinfo(FI_VERSION(1, 17), host.c_str(), port.c_str(),
                                listens ? FI_SOURCE : 0, hints.get(), &found);
  if (result != 0) return failed(("provider " + provider.name + " at " + host).c_str(), result);
  return Info(found);
}

Result<Fid<fid_eq>> open_events(fid_fabric* fabric) {
  fi_eq_attr attributes{};
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* events = nullptr;
  const int result = fi_eq_open(fabric, &attributes, &events, nullptr);
  if (result != 0) return failed("event queue", result);
  return Fid<fid_eq>(events);
}

// The next event, waited for in steps so that the provider gets on. kTimedOut after timeout_ms;
// kUnavailable when it is a failure.
Result<uint32_t> next_event(fid_eq* events, CmEvent* event, int timeout_ms,
                            const std::atomic<bool>* stop = nullptr) {
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    uint32_t kind = 0;
    const ssize_t bytes =
        fi_eq_sread(events, &kind, event->bytes, sizeof(event->bytes), kStepMs, 0);
    if (bytes >= 0) return kind;
    if (bytes == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      (void)fi_eq_readerr(events, &error, 0);
      return failed("connection", -error.err);
    }
    if (bytes != -FI_EAGAIN && bytes != -FI_EINTR) return failed("event queue", bytes);
    const bool stopped = stop != nullptr && stop->load(std::memory_order_acquire);
    if (stopped || monotonic_ns() >= end)
      return Status(StatusCode::kTimedOut, "no connection in time");
  }
}

ino_t inode_of(int fd) {
  struct stat info {};
  return fd >= 0 && ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

bool same_secret(const Secret& a, const Secret& b) {
  uint8_t differs = 0;  // takes as long whatever they hold
  for (size_t i = 0; i < a.size(); ++i) differs |= static_cast<uint8_t>(a[i] ^ b[i]);
  return differs == 0;
}

}  // namespace

Status FabricLink::register_memory(const fi_info& info, const EndMemory& memory) {
  const int mode = info.domain_attr->mr_mode;
  needs_registration_ = (mode & FI_MR_LOCAL) != 0;
  virtual_addresses_ = (mode & FI_MR_VIRT_ADDR) != 0;
  window_memory_ = memory.window;
  local_memory_ = memory.all;
  uint64_t key = 0;  // where the provider makes none, one that nobody guesses
  if (::getrandom(&key, sizeof(key), 0) != sizeof(key)) return Status::from_errno(errno, "key");
  if (info.domain_attr->mr_key_size < sizeof(key) && info.domain_attr->mr_key_size > 0)
    key &= (uint64_t{1} << (8 * info.domain_attr->mr_key_size)) - 1;
  fid_mr* region = nullptr;
  int result = fi_mr_reg(domain_.get(), memory.window.data(), memory.window.size(), FI_REMOTE_WRITE,
                         0, key, 0, &region, nullptr);
  if (result != 0) return failed("registering the window", result);
  window_.reset(region);
  if (!needs_registration_) return ok_status();
  result = fi_mr_reg(domain_.get(), memory.all.data(), memory.all.size(), FI_WRITE, 0, key + 1, 0,
                     &region, nullptr);
  if (result != 0) return failed("registering the channel", result);
  local_.reset(region);
  result = fi_mr_reg(domain_.get(), arena_.get(), (kOps + kReceivesPosted) * kMessageBytesMax,
                     FI_SEND | FI_RECV, 0, key + 2, 0, &region, nullptr);
  if (result != 0) return failed("registering messages", result);
  messages_.reset(region);
  return ok_status();
}

Status FabricLink::open(fi_info* info, fid_fabric* fabric, fid_eq* events,
                        const EndMemory& memory) {
  fabric_ = fabric;
  fid_domain* domain = nullptr;
  int result = fi_domain(fabric, info, &domain, nullptr);
  if (result != 0) return failed("domain", result);
  domain_.reset(domain);
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_DATA;
  // Some providers set a place aside for each receive that an endpoint could have, and refuse to
  // send without another.
  attributes.size =
      std::max(2 * (kOps + kReceivesPosted), info->tx_attr->size + info->rx_attr->size);
  attributes.wait_obj = FI_WAIT_FD;
  fid_cq* completions = nullptr;
  result = fi_cq_open(domain, &attributes, &completions, nullptr);
  if (result != 0) return failed("completion queue", result);
  completions_.reset(completions);
  arena_ = std::make_unique<std::byte[]>((kOps + kReceivesPosted) * kMessageBytesMax);
  VGPU_RETURN_IF_ERROR(register_memory(*info, memory));
  fid_ep* endpoint = nullptr;
  result = fi_endpoint(domain, info, &endpoint, nullptr);
  if (result != 0) return failed("endpoint", result);
  endpoint_.reset(endpoint);
  result = fi_ep_bind(endpoint, &events->fid, 0);
  if (result == 0) result = fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV);
  if (result == 0) result = fi_enable(endpoint);
  if (result != 0) return failed("endpoint", result);
  inject_bytes_max_ = info->tx_attr->inject_size;
  operations_.resize(std::min<size_t>(kOps, info->tx_attr->size));
  receives_.resize(std::min<size_t>(kReceivesPosted, info->rx_attr->size));
  for (uint32_t i = 0; i < operations_.size(); ++i) {
    operations_[i].index = i;
    free_.push_back(&operations_[i]);
  }
  for (uint32_t i = 0; i < receives_.size(); ++i) {
    receives_[i].op = Op::kReceive;
    receives_[i].index = i;
    if (!post_receive(&receives_[i])) return Status(StatusCode::kUnavailable, "no receives");
  }
  (void)fi_control(&completions_->fid, FI_GETWAIT, &completion_fd_);
  (void)fi_control(&events->fid, FI_GETWAIT, &event_fd_);
  return ok_status();
}

Status FabricLink::wait_connected(fid_eq* events, int timeout_ms, const std::atomic<bool>* stop) {
  CmEvent event{};
  const Result<uint32_t> kind = next_event(events, &event, timeout_ms, stop);
  if (!kind.ok()) return kind.status();
  return *kind == FI_CONNECTED ? ok_status()
                               : Status(StatusCode::kUnavailable, "the connection was refused");
}

// Each side's first message says where the peer may write, and how far it has come itself.
Status FabricLink::exchange_windows(const Introduction& self, int timeout_ms) {
  WindowMessage mine{};
  mine.header = {MessageKind::kWindow, sizeof(mine), 0};
  mine.version = kNetVersion;
  mine.epoch = self.epoch;
  mine.positions = self.positions;
  mine.address =
      virtual_addresses_ ? reinterpret_cast<uint64_t>(window_memory_.data()) : uint64_t{0};
  mine.key = fi_mr_key(window_.get());
  mine.bytes = window_memory_.size();
  struct First final : LinkSink {
    explicit First(uint32_t wanted) : epoch(wanted) {}
    bool received(std::span<const std::byte> message) override {
      WindowMessage theirs;
      MessageHeader header;
      if (have || message.size() != sizeof(theirs) || !read_header(message, &header)) return false;
      std::memcpy(&theirs, message.data(), sizeof(theirs));
      if (header.kind != MessageKind::kWindow || theirs.version != kNetVersion ||
          theirs.epoch != epoch)
        return false;
      window = theirs;
      return have = true;
    }
    void written(uint64_t /*token*/) override {}
    const uint32_t epoch;
    WindowMessage window{};
    bool have = false;
  } first(self.epoch);
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  // A provider may be full until it has been polled, before anything was sent.
  Sent sent = Sent::kFull;
  while (sent != Sent::kDone || !first.have) {
    if (sent == Sent::kFull) sent = send(std::as_bytes(std::span(&mine, 1)));
    if (sent == Sent::kGone)
      return Status(StatusCode::kUnavailable, "the connection ended at once");
    if (poll(&first) < 0) return Status(StatusCode::kMalformed, "no window from the peer");
    if (monotonic_ns() >= end) return Status(StatusCode::kTimedOut, "no window in time");
    pollfd wait{completion_fd_, POLLIN, 0};
    if (sent == Sent::kFull) (void)::poll(nullptr, 0, 1);
    if (sent == Sent::kDone && !first.have && may_sleep()) (void)::poll(&wait, 1, kStepMs);
  }
  peer_address_ = first.window.address;
  peer_key_ = first.window.key;
  peer_bytes_ = first.window.bytes;
  peer_positions_ = first.window.positions;
  batch_ = kBatch;
  return ok_status();
}

// The socket whose two names are those of the endpoint.
void FabricLink::find_socket() {
  sockaddr_storage mine{}, theirs{};
  size_t mine_bytes = sizeof(mine), theirs_bytes = sizeof(theirs);
  if (fi_getname(&endpoint_->fid, &mine, &mine_bytes) != 0 ||
      fi_getpeer(endpoint_.get(), &theirs, &theirs_bytes) != 0)
    return;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* const entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage name{};
    socklen_t bytes = sizeof(name);
    if (entry->d_name[0] == '.' ||
        ::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0 ||
        bytes != theirs_bytes || std::memcmp(&name, &theirs, bytes) != 0)
      continue;
    bytes = sizeof(name);
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0 || bytes != mine_bytes ||
        std::memcmp(&name, &mine, bytes) != 0)
      continue;
    (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
    socket_fd_ = fd;
  }
  ::closedir(folder);
}

// A program may have closed them, and have files of its own at these numbers.
void FabricLink::remember_descriptors() {
  const int all[] = {completion_fd_, event_fd_, socket_fd_};
  for (size_t i = 0; i < inodes_.size(); ++i) inodes_[i] = inode_of(all[i]);
}

bool FabricLink::intact() const {
  const int all[] = {completion_fd_, event_fd_, socket_fd_};
  for (size_t i = 0; i < inodes_.size(); ++i) {
    if (inode_of(all[i]) != inodes_[i]) return false;
  }
  return true;
}

void FabricLink::mind_path() {
  if (socket_fd_ < 0) return;
  constexpr int kStepS = 1;
  const int on = 1, silent_ms = kPathSilentMs, idle_s = 2, step_s = kStepS;
  const int steps = kPathSilentMs / 1000 - idle_s;
  (void)::setsockopt(socket_fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  (void)::setsockopt(socket_fd_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  (void)::setsockopt(socket_fd_, IPPROTO_TCP, TCP_KEEPINTVL, &step_s, sizeof(step_s));
  (void)::setsockopt(socket_fd_, IPPROTO_TCP, TCP_KEEPCNT, &steps, sizeof(steps));
  (void)::setsockopt(socket_fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
}

Result<std::unique_ptr<FabricLink>> FabricLink::connect(const Provider& provider,
                                                        const std::string& address,
                                                        const Introduction& self,
                                                        const EndMemory& memory, int timeout_ms,
                                                        const std::atomic<bool>* stop) {
  std::string host, port;
  if (!split(address, &host, &port))
    return Status(StatusCode::kInvalidArgument, "not host:port: " + address);
  Result<Info> info = find(provider, host, port, false);
  if (!info.ok()) return info.status();
  std::unique_ptr<FabricLink> link(new FabricLink);
  fid_fabric* fabric = nullptr;
  int result = fi_fabric((*info)->fabric_attr, &fabric, nullptr);
  if (result != 0) return failed("fabric", result);
  link->own_fabric_.reset(fabric);
  Result<Fid<fid_eq>> events = open_events(fabric);
  if (!events.ok()) return events.status();
  link->events_ = std::move(events).value();
  VGPU_RETURN_IF_ERROR(link->open(info->get(), fabric, link->events_.get(), memory));
  const PrivateData data{kPrivateMagic, kNetVersion, self.secret};
  result = fi_connect(link->endpoint_.get(), (*info)->dest_addr, &data, sizeof(data));
  if (result != 0) return failed("connect", result);
  VGPU_RETURN_IF_ERROR(link->wait_connected(link->events_.get(), timeout_ms, stop));
  VGPU_RETURN_IF_ERROR(link->exchange_windows(self, timeout_ms));
  link->find_socket();
  link->remember_descriptors();
  return link;
}

Result<std::unique_ptr<FabricListener>> FabricListener::open(const Provider& provider,
                                                             const std::string& host) {
  Result<Info> info = find(provider, host, "0", true);
  if (!info.ok()) return info.status();
  std::unique_ptr<FabricListener> listener(new FabricListener);
  listener->info_ = std::move(info).value();
  fid_fabric* fabric = nullptr;
  int result = fi_fabric(listener->info_->fabric_attr, &fabric, nullptr);
  if (result != 0) return failed("fabric", result);
  listener->fabric_.reset(fabric);
  Result<Fid<fid_eq>> events = open_events(fabric);
  if (!events.ok()) return events.status();
  listener->events_ = std::move(events).value();
  fid_pep* endpoint = nullptr;
  result = fi_passive_ep(fabric, listener->info_.get(), &endpoint, nullptr);
  if (result != 0) return failed("passive endpoint", result);
  listener->endpoint_.reset(endpoint);
  result = fi_pep_bind(endpoint, &listener->events_->fid, 0);
  if (result == 0) result = fi_listen(endpoint);
  if (result != 0) return failed("listen", result);
  sockaddr_storage name{};
  size_t bytes = sizeof(name);
  result = fi_getname(&endpoint->fid, &name, &bytes);
  if (result != 0) return failed("address", result);
  const in_port_t port = name.ss_family == AF_INET6
                             ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                             : reinterpret_cast<sockaddr_in*>(&name)->sin_port;
  const bool six = host.find(':') != std::string::npos;
  listener->address_ = (six ? "[" + host + "]" : host) + ":" + std::to_string(ntohs(port));
  return listener;
}

Result<std::unique_ptr<FabricLink>> FabricListener::accept(const Introduction& self,
                                                           const EndMemory& memory, int timeout_ms,
                                                           int cancel_fd) {
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    CmEvent event{};
    const Result<uint32_t> kind = next_event(events_.get(), &event, kStepMs);
    pollfd cancel{cancel_fd, POLLIN, 0};
    if (cancel_fd >= 0 && ::poll(&cancel, 1, 0) > 0)
      return Status(StatusCode::kUnavailable, "no longer wanted");
    if (monotonic_ns() >= end) return Status(StatusCode::kTimedOut, "no guest connected");
    if (!kind.ok() || *kind != FI_CONNREQ) continue;  // nobody yet, or one that gave up
    const Info info(event.entry().info);
    PrivateData data{};
    std::memcpy(&data, event.entry().data, sizeof(data));
    if (data.magic != kPrivateMagic || data.version != kNetVersion ||
        !same_secret(data.secret, self.secret)) {
      (void)fi_reject(endpoint_.get(), info->handle, nullptr, 0);
      continue;
    }
    // Nobody asks for another instead of the first.
    const auto left_ms = static_cast<int>((end - std::min(end, monotonic_ns())) / 1'000'000);
    return take(info.get(), self, memory,
                self.epoch == 1 ? left_ms : std::min(left_ms, kReconnectTimeoutMs));
  }
}

// The connection that was asked for; it has so long to get ready.
Result<std::unique_ptr<FabricLink>> FabricListener::take(fi_info* info, const Introduction& self,
                                                         const EndMemory& memory, int ready_ms) {
  std::unique_ptr<FabricLink> link(new FabricLink);
  Result<Fid<fid_eq>> events = open_events(fabric_.get());
  if (!events.ok()) return events.status();
  link->events_ = std::move(events).value();
  if (const Status opened = link->open(info, fabric_.get(), link->events_.get(), memory);
      !opened.ok()) {
    VGPU_LOG_WARN("a data connection cannot be taken: %s", opened.text().c_str());
    // Else the guest would wait for nothing; an endpoint has said so with its end.
    if (link->endpoint_ == nullptr) (void)fi_reject(endpoint_.get(), info->handle, nullptr, 0);
    return opened;
  }
  const int result = fi_accept(link->endpoint_.get(), nullptr, 0);
  if (result != 0) return failed("accept", result);
  VGPU_RETURN_IF_ERROR(link->wait_connected(link->events_.get(), ready_ms, nullptr));
  // Nobody else gets in; the fabric goes with the connection.
  endpoint_.reset();
  events_.reset();
  link->own_fabric_ = std::move(fabric_);
  VGPU_RETURN_IF_ERROR(link->exchange_windows(self, ready_ms));
  return link;
}

}  // namespace vgpu::net
