// prometheus-cpp's exposer, and the way from a scrape's thread to vgpud's loop and back.
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_endpoint.h"

#include <prometheus/exposer.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "server/metrics_families.h"

namespace vgpu::server {
namespace {

// Between the scrapes' threads, which ask, and the loop's, which answers.
class Exchange : public prometheus::Collectable {
 public:
  explicit Exchange(UniqueFd wakeup) : wakeup_(std::move(wakeup)) {}
  int wakeup_fd() const { return wakeup_.get(); }

  void publish(Reading reading) {
    uint64_t rings = 0;
    (void)!::read(wakeup_.get(), &rings, sizeof(rings));
    const std::lock_guard lock(mutex_);
    reading_ = std::make_shared<const Reading>(std::move(reading));
    published_ns_ = monotonic_ns();
    changed_.notify_all();
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::shared_ptr<const Reading> reading = fresh();
    return reading == nullptr ? std::vector<prometheus::MetricFamily>() : metric_families(*reading);
  }

 private:
  // Null when the loop does not answer in time: no figures are better than old ones.
  std::shared_ptr<const Reading> fresh() const {
    std::unique_lock lock(mutex_);
    const uint64_t now = monotonic_ns();
    const uint64_t oldest = now > kReadingFreshNs ? now - kReadingFreshNs : 0;
    const auto is_fresh = [&] { return reading_ != nullptr && published_ns_ >= oldest; };
    if (!is_fresh()) {
      const uint64_t ring = 1;
      (void)!::write(wakeup_.get(), &ring, sizeof(ring));
      changed_.wait_for(lock, std::chrono::milliseconds(kReadingTimeoutMs), is_fresh);
    }
    return is_fresh() ? reading_ : nullptr;
  }

  const UniqueFd wakeup_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::shared_ptr<const Reading> reading_;  // under mutex_
  uint64_t published_ns_ = 0;               // under mutex_
};

std::vector<std::string> exposer_options(const std::string& address) {
  return {"listening_ports",    address,
          "num_threads",        std::to_string(kScrapeThreads),
          "request_timeout_ms", std::to_string(kRequestTimeoutMs),
          "enable_keep_alive",  "no"};
}

}  // namespace

// The exposer goes first: its threads may be in the exchange.
struct MetricsEndpoint::State {
  std::shared_ptr<Exchange> exchange;
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsEndpoint::~MetricsEndpoint() = default;

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::start(const std::string& address) {
  UniqueFd wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.valid()) return Status::from_errno(errno, "eventfd");
  auto state = std::make_unique<State>();
  state->exchange = std::make_shared<Exchange>(std::move(wakeup));
  try {
    state->exposer = std::make_unique<prometheus::Exposer>(exposer_options(address));
    state->exposer->RegisterCollectable(state->exchange);
  } catch (const std::exception& error) {
    return Status(StatusCode::kUnavailable,
                  "cannot serve metrics at " + address + ": " + error.what());
  }
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(state)));
}

int MetricsEndpoint::wakeup_fd() const { return state_->exchange->wakeup_fd(); }

void MetricsEndpoint::publish(Reading reading) { state_->exchange->publish(std::move(reading)); }

std::string metrics_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos)
    return "";
  const int number = std::stoi(port);
  if (number < 1 || number > 65535) return "";
  if (host.empty()) host = "127.0.0.1";
  const bool v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const char* const allowed = v6 ? "0123456789abcdefABCDEF:.[]" : "0123456789.";
  if (host.find_first_not_of(allowed) != std::string::npos) return "";
  return host + ":" + port;
}

}  // namespace vgpu::server
