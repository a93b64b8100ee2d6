// What runs on the thread of a guest's control connection; private to control_client.cc.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_CONTROL_THREAD_H_
#define VGPU_NET_CONTROL_CONTROL_THREAD_H_

#include <optional>
#include <string>
#include <vector>

#include "net/control/control_client.h"
#include "net/control/patient_clock.h"
#include "net/control/zmq_socket.h"

namespace vgpu::net {

// One connection, on one thread.
class ControlThread {
 public:
  struct Request {
    protocol::Address address;
    ClientKeys keys;
    protocol::Message message;
    uint64_t deadline_ms = 0;
  };

  explicit ControlThread(Request request) : request_(std::move(request)) {}

  // Connects, asks, waits for the answer. Leaves lifeline alone.
  ControlAnswer exchange();

  // After NetAttached: until the lifeline (this thread's end of it) or the session ends. A
  // descriptor that comes over the lifeline is shut down then. Asks for other data connections, as
  // the lifeline's other end wants them, and tells it what is offered.
  void stay(const protocol::NetAttached& attached, int lifeline);

 private:
  // What the monitor says of the connection.
  enum class Way { kNothing, kReady, kNobody, kNotAdmitted, kNotTheServer, kGone };
  Status resolve(std::vector<std::string>* endpoints) const;
  Status connect(const std::string& endpoint);
  Status connect_any();
  Way look();
  Status wait_until_ready();
  Status ask();
  Status no_way(Way way) const;
  int left_ms() const;

  bool beat_until_over(const protocol::NetAttached& attached, int lifeline);
  bool hear_program(const protocol::NetAttached& attached, int lifeline);
  bool hear(const protocol::NetAttached& attached, int lifeline);
  bool lost_for_good(uint64_t now);
  void say(const protocol::Message& message);

  Request request_;
  ZmqContext context_;
  ZmqSocket socket_, monitor_;  // end before the context
  int monitors_ = 0;
  UniqueFd liveness_;                        // of the data connection
  std::string endpoint_;                     // that is connected, in numbers
  std::optional<protocol::NetResume> wish_;  // not answered yet
  PatientClock patience_{0};
  uint64_t heard_ms_ = 0, lost_ms_ = 0, knocked_ms_ = 0;  // by patience_
};

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_CONTROL_THREAD_H_
