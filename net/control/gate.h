// The network's door to a server: admits keys, starts a session process for each remote guest, and
// ends it when the guest, or its right, is gone.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_GATE_H_
#define VGPU_NET_CONTROL_GATE_H_

#include <zmq.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "base/user_range.h"
#include "net/control/authorized_keys.h"
#include "net/control/control_limits.h"
#include "net/control/keys.h"
#include "net/control/listener.h"
#include "net/control/patient_clock.h"
#include "net/control/rate_limit.h"
#include "net/control/zmq_socket.h"
#include "protocol/session/gate_link.h"
#include "protocol/session/messages.h"

namespace vgpu::net {

struct GateOptions {
  protocol::Address address;    // where to listen
  std::string data_host;        // where sessions take data connections
  std::string vgpud_path;       // of vgpud's unix socket
  std::string program;          // this program's file, for session processes
  std::string key_path;         // the server's key file
  std::string authorized_path;  // the file of authorised keys
  UserRange session_users;      // that sessions run as; none: this process's own
  std::string log_level = "info";
  bool require_encryption = false;                // refuse what would send data in the clear
  uint32_t grace_ms = protocol::kGraceMsDefault;  // the most that a guest may be silent
  int control = -1;                               // to vgpud
};

// Single-threaded beside libzmq's own threads. It never reads what a guest sends but control
// messages, and of these only what the verifier and the range checks let through.
class Gate {
 public:
  explicit Gate(GateOptions options);
  ~Gate();

  // Keys, the handler of keys, the socket: in this order. A gate that cannot check keys does not
  // listen.
  Status open();
  // Serves until vgpud is gone and the last guest with it. Returns the exit code.
  int run();
  // One round: waits at most timeout_ms, does what there is to do.
  void run_once(int timeout_ms);

 private:
  struct Session {
    pid_t pid = 0;
    UniqueFd control, process;
    std::string key, tenant;
    std::string remote;   // for people
    Frame routing;        // of the guest's connection
    int descriptor = -1;  // of the same
    uint64_t number = 0;  // vgpud's; 0 = still starting
    // By patience_, as are the next but one.
    uint64_t deadline_ms = 0;
    uint64_t heard_ms = 0;
    uint64_t lost_ms = 0;  // when its connection went; 0 = it is there
    uint64_t grace_ms = 0;
    uid_t user = 0;      // that its process runs as; 0: the gate's
    bool ended = false;  // its end was told, or nobody wants to know
  };
  struct Question {
    UniqueFd vgpud;
    Frame routing;
    std::string tenant;
    uint64_t deadline_ms = 0;  // by patience_
  };
  // Who has sent a message.
  struct Sender {
    Frame routing;
    int descriptor = -1;
    std::string key, tenant, address;
  };

  // connections (gate_doors.cc)
  Status open_door();
  void try_listen();
  void mind_door();
  void check_key();
  void watch_connections();
  bool memory_has_grown();

  // messages (gate_messages.cc)
  void take_messages();
  void take_message(const ZmqMessage& message);
  void attach_asked(const Sender& from, protocol::NetAttach attach);
  Status may_attach(const Sender& from, const protocol::NetAttach& attach);
  void beat(const Sender& from, const protocol::NetBeat& beat);
  void detach(const Sender& from, const protocol::NetDetach& detach);
  void resume(const Sender& from, const protocol::NetResume& resume);
  Session* heard_from(const Sender& from, uint64_t number);
  void question_asked(const Sender& from);
  void question_answered(Question* question);
  void answer(const Frame& routing, const protocol::Message& message);
  void refuse(const Sender& from, int32_t cuda_error, const std::string& why);

  // sessions (gate_sessions.cc)
  Status start_session(const Sender& from, protocol::NetAttach attach);
  Status hand_over(const protocol::Hello& hello, pid_t pid, int connection);
  void session_spoke(Session* session);
  void session_ended(Session* session);
  void end_session(Session* session, const std::string& why);
  void connection_gone(int descriptor);
  void mind_sessions();
  void mind_keys();

  struct Polled {
    std::vector<zmq_pollitem_t> items;
    std::vector<Session*> sessions;    // two items each, behind the sockets
    std::vector<Question*> questions;  // one item each, behind the sessions
  };
  Polled what_to_poll();
  int poll_timeout(int timeout_ms) const;
  void vgpud_spoke();
  void tell_vgpud();
  // Whether a line about what strangers do may be written now.
  bool strange_line();

  const GateOptions options_;
  KeyPair key_;
  AuthorizedKeys authorized_;
  bool keys_changed_ = false;  // since the sessions were looked through
  ZmqContext context_;
  ZmqSocket keys_door_, router_, monitor_;
  std::optional<Listener> listener_;  // not yet, while an earlier gate holds the address
  bool resting_ = false;              // no more connections for now
  uint64_t listen_until_ms_ = 0;
  int doors_ = 0;  // sockets made so far
  std::set<int> connections_;
  UserRange session_users_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<Question>> questions_;
  RateLimit attaches_{kAttachBurst, kAttachesPerSecond};
  RateLimit resumes_{kResumeBurst, kResumesPerSecond};
  RateLimit asks_{kQuestionBurst, kQuestionsPerSecond};
  TokenBucket strange_lines_{kStrangeLineBurst, kStrangeLinesPerSecond, 0};
  uint64_t strange_hidden_ = 0;  // lines not written
  uint64_t memory_first_ = 0;    // bytes
  uint64_t minded_ms_ = 0, told_ms_ = 0;
  protocol::GateReport report_, told_;
  PatientClock patience_;
  bool alone_ = false;  // vgpud is gone
  int exit_code_ = 0;
};

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_GATE_H_
