// The HTTP endpoint that Prometheus reads, with threads of its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_METRICS_ENDPOINT_H_
#define VGPU_SERVER_METRICS_ENDPOINT_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "server/metrics.h"

namespace vgpu::server {

inline constexpr uint64_t kReadingFreshNs = 100'000'000;  // so long a reading serves all scrapes
inline constexpr int kReadingTimeoutMs = 2000;  // then a scrape ends without vgpud's figures
inline constexpr int kScrapeThreads = 2;        // scrapes at the same time; more wait
inline constexpr int kRequestTimeoutMs = 3000;  // a client that sends nothing, or reads nothing

// Nothing is read while nobody asks: a scrape makes wakeup_fd() readable, vgpud's loop reads its
// state and publishes it, the scrape's thread makes text of it. vgpud's own thread never waits for
// a client. `publish` is for that one thread; the rest is thread-safe.
class MetricsEndpoint {
 public:
  // Listens at ADDRESS:PORT. Signals that the caller has blocked stay blocked in its threads.
  static Result<std::unique_ptr<MetricsEndpoint>> start(const std::string& address);
  ~MetricsEndpoint();

  int wakeup_fd() const;
  // Answers all scrapes that wait.
  void publish(Reading reading);

 private:
  struct State;
  explicit MetricsEndpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "9000" or ":9000" means loopback; else ADDRESS:PORT, an IPv6 address in brackets. Empty: neither.
std::string metrics_address(const std::string& text);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_METRICS_ENDPOINT_H_
