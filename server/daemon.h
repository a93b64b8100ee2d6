// vgpud: takes guests in, grants memory, keeps workers ready, lists and reaps them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_DAEMON_H_
#define VGPU_SERVER_DAEMON_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "base/user_range.h"
#include "protocol/session/gate_link.h"
#include "protocol/session/handshake.h"
#include "server/device_choice.h"
#include "server/doors.h"
#include "server/event_loop.h"
#include "server/grants.h"
#include "server/metrics_endpoint.h"
#include "server/mps_daemon.h"
#include "server/policy.h"
#include "server/turn_keeper.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr int kHelloTimeoutMs = 5000;  // a connection that says nothing is closed
inline constexpr size_t kUnheardMax =
    256;  // connections that have not spoken; then the oldest goes
inline constexpr size_t kQueuedGuestsMax =
    256;                                 // guests that wait for a worker; the next is refused
inline constexpr int kListenTries = 10;  // while another server seems to answer at the address
inline constexpr int kListenRetryMs = 50;
inline constexpr uint32_t kSessionUsers = 512;    // of the worker users, for each gate's sessions
inline constexpr int kTickMs = 500;               // while something waits for time to pass
inline constexpr uint64_t kGateRestartMs = 1000;  // between two starts of one gate
// Remote guests have no user here; who shares with whom goes by their tenants.
inline constexpr uid_t kRemoteUser = static_cast<uid_t>(-1);
inline constexpr int kStartFailuresMax = 3;     // workers in a row that die before they are ready
inline constexpr uint64_t kPromiseMs = 60'000;  // for a worker that is started for one guest
inline constexpr uint32_t kPromisesOfTenantMax = 4;  // that start at once; further guests wait
inline constexpr int kMpsFailuresMax = 3;            // starts in a row; then guests are refused
inline constexpr uint64_t kMpsRestartMs = 1000;      // between two starts of one daemon
inline constexpr uint64_t kMpsStopMs = 8000;         // for clients and daemons to end at the end
inline constexpr int kMpsPollMs = 20;

struct DaemonOptions {
  std::string listen_path;
  unsigned socket_mode = 0600;
  std::string driver = "auto";
  std::string devices;         // which of the driver's are shared; empty: all
  unsigned guest_devices = 0;  // what a guest gets that names none; 0 = all
  std::string worker_program;
  std::string mps_program;  // NVIDIA's MPS control program; empty: there is none
  std::string log_level = "info";
  uint64_t memory_default = 0;  // 0 = a quarter of what can be granted
  uint64_t headroom = 0;
  bool headroom_given = false;
  unsigned workers_ahead = 2;
  std::string metrics;  // ADDRESS:PORT of the endpoint for Prometheus; empty: none
  UserRange worker_users;
  // Where remote guests come in (docs/network.md), and what the gates there are told; empty: their
  // defaults.
  std::vector<std::string> networks;
  std::string gate_program, server_key, authorized_keys;
  bool require_encryption = false;
  bool tenants_reach_host_memory = false;  // serve several where devices reach workers' memory
  int64_t network_grace = 0;  // seconds that a remote guest may be silent; 0: the gate's default
  Policy policy;              // profiles and tenants
  // Command line and file once more, for SIGHUP.
  std::function<Result<DaemonOptions>()> read_again;
  SchedulerKind scheduler = SchedulerKind::kAuto;
};

// A worker's process, by its number, or one session of a process that has several: below 0.
using WorkerId = int64_t;

// Never executes guest code and never touches the driver. Single-threaded: everything happens in
// run().
class Daemon {
 public:
  Daemon(DaemonOptions options, EventLoop loop);
  ~Daemon();

  // Listens, starts workers, and serves until a stop is asked for. Returns the exit code.
  int run();

 private:
  struct QueuedGuest {
    UniqueFd connection;
    protocol::Hello hello;  // without its token
    pid_t pid = 0;
    uid_t uid = 0;
    GuestTerms terms;
  };
  // For whom a worker is started, and what is granted already.
  struct Promise {
    uint64_t session = 0;
    WorkerGrants grants;
    QueuedGuest guest;
    uint64_t deadline_ms = 0;
    bool broken = false;  // the guest has been refused, and the worker is ended
  };
  // How a worker differs from others.
  struct WorkerPlan {
    uid_t user = 0;
    SharingMode mode = SharingMode::kIsolated;
    std::vector<std::string> settings;  // of its environment
    uint64_t launch_ms = 0;             // kPacked
  };
  struct MpsTenant {
    std::string name;
    std::unique_ptr<MpsDaemon> daemon;
    uint64_t started_ms = 0, starts = 0;
    int failures = 0;   // starts in a row that nobody answered
    bool over = false;  // it has been told to quit, and its folder goes
  };
  struct Worker {
    WorkerId id = 0;
    pid_t pid = 0;
    bool child = false;  // ours to wait for; false: adopted
    bool ready = false;
    UniqueFd control, process;
    std::string door;  // path; removed with the worker
    uid_t user = 0;    // its own; 0: the server's
    SharingMode mode = SharingMode::kIsolated;
    uint32_t mps_number = 0;   // of its tenant's daemon; the user is that one's
    uint64_t memory_most = 0;  // that its environment allows on each device; 0: no bound
    bool ending = false;       // MPS is asked to let go of it; then it is killed
    bool left = false;         // it has asked for its end
    int left_code = 0;         // and would have had this exit code
    std::optional<Promise> promise;
    // kPacked: a process without a session of its own, for guests of `tenant` whose kernels may run
    // for so long, or such a guest's session there.
    uint64_t launch_ms = 0, deadline_ms = 0;
    bool broken = false;  // a context of its is: it gets no new guests
    Mapping page;
    uint64_t session = 0;  // 0 = waits for a guest
    WorkerGrants grants;   // what the guest may have
    WorkerGrants held;     // what the ledgers count: more while it uses more than it may have
    scheduler::Share share;
    std::string tenant, profile;
    GuestAsk ask;  // what the guest asked for
    GuestAsk set;  // what an operator has set since
    protocol::GuestLimits limits;
    bool exclusive = false;
    bool killed = false;  // by an operator
    uint32_t order = 0;   // the last WorkerOrder
    bool obeyed = true;   // and whether it holds
    uint64_t started_ms = 0;
    pid_t guest_pid = 0;
    uid_t guest_uid = 0;
    std::string executable, label;
    std::string remote;  // where a remote guest is, for people
  };
  struct Gate {
    std::string address;
    UserRange users;  // of its sessions' processes
    pid_t pid = 0;    // 0: to be started again
    bool ready = false;
    uint64_t started_ms = 0;
    UniqueFd control, process;
    protocol::GateReport report;
  };
  struct Unheard {
    UniqueFd connection;
    uint64_t deadline_ms = 0;
  };

  // workers (daemon_workers.cc)
  void keep_ahead();
  void start_worker();
  Worker* start_worker(const WorkerPlan& plan);
  void worker_spoke(WorkerId id);
  void worker_ended(WorkerId id);
  void learn_devices(const WorkerReady& ready);
  Status check_separation(const DaemonOptions& options) const;
  Worker* waiting_worker();

  void end_worker(Worker* worker);
  static void kill_worker(const Worker& worker);

  // workers that are started for one guest (daemon_promises.cc)
  uint32_t promises_of(const std::string& tenant) const;
  uint32_t waiting_count() const;
  bool can_serve(const QueuedGuest& guest, bool worker_waits) const;
  void promise_worker(QueuedGuest guest);
  void keep_promise(Worker* worker);
  void break_promise(Worker* worker, const Status& why);
  void break_promises(const Status& why);
  bool end_slow_starts();

  // tenants in MPS mode (daemon_mps.cc)
  Status check_modes(const DaemonOptions& options) const;
  MpsTenant* mps_of(const std::string& tenant);
  Status add_mps(const std::string& tenant, uint32_t number, uid_t user);
  bool needs_mps(const std::string& tenant) const;
  bool tend_mps();
  void refuse_queued(const std::string& tenant, const Status& why);
  void start_mps(MpsTenant* tenant);
  void mps_ended(MpsTenant* tenant);
  void end_client(Worker* worker);
  Status adopt_mps(const Worker& worker);
  void sweep_mps();
  void quit_mps(MpsTenant* tenant);
  void end_mps(bool guests_too);

  // guests of one tenant in one process (daemon_packed.cc)
  Worker* house_of(const GuestTerms& terms, bool starting) const;
  uint32_t guests_in(const Worker& house) const;
  void tend_houses();
  void start_house(const GuestTerms& terms);
  void open_session(QueuedGuest guest);
  void session_over(WorkerId id);
  void end_empty_house(pid_t pid);
  static void end_session(Worker* session);
  void house_ended(const Worker& house);
  scheduler::Share share_of_process(const Worker& worker) const;

  // workers of an earlier server (daemon_adoption.cc)
  void look_for_workers();
  void found_worker_spoke(int connection);
  Status tell_board(Worker* worker);
  void adopt(FoundWorker found, const WorkerAdopt& message, std::vector<UniqueFd> descriptors);

  // workers whose guests share something (daemon_peers.cc)
  void peer_asked(WorkerId id);
  void introduce(const Worker& from, const PeerMessage& ask);

  // remote guests and those who let them in (daemon_gates.cc)
  void start_gates();
  Status start_gate(Gate* gate);
  void gate_spoke(Gate* gate);
  void gate_ended(Gate* gate);
  void remote_guest(const protocol::ControlFrame& frame, UniqueFd connection);
  std::vector<protocol::NetworkUse> networks() const;

  // guests and administrators (daemon_guests.cc)
  void accept_all();
  void listen_again();
  void heard(int fd);
  void close_silent();
  void greet(UniqueFd connection, protocol::Hello hello, pid_t pid, uid_t uid);
  void serve_queue();
  Result<WorkerGrants> take_grants(uint64_t session, const QueuedGuest& guest);
  std::optional<QueuedGuest> next_guest();
  bool room_in_queue(const std::string& tenant);
  void drop_gone();
  Result<GuestTerms> terms_of(int connection, pid_t pid, uid_t uid,
                              const protocol::Hello& hello) const;
  Result<GuestTerms> terms_of_remote(const protocol::Hello& hello) const;
  double dominant_share_of(const std::string& tenant) const;
  // By vgpud's socket `to`, with descriptors behind the usual ones.
  void hand_over(Worker* worker, QueuedGuest guest, int to, const std::vector<int>& more = {});
  Result<TurnKeeper::Papers> enter_turns(Worker* worker);
  protocol::GuestInfo info_of(const Worker& worker) const;
  void refuse(int connection, const Status& status);
  // What is no guest, and wanted what it may not or what cannot be.
  void decline(int connection, const Status& status);
  protocol::InfoReply info(int connection) const;
  // What the process at the other end may know of its own guests (daemon_figures.cc).
  void figures_asked(int connection, const protocol::FiguresRequest& request);
  std::vector<const Worker*> own_workers(const protocol::PeerCredentials& caller,
                                         const std::string& label) const;
  std::vector<uint32_t> own_devices(const std::vector<const Worker*>& own,
                                    const protocol::FiguresRequest& request) const;

  uint64_t memory_for(int connection, const protocol::PeerCredentials& caller,
                      const protocol::FiguresRequest& request, uint32_t place) const;

  // for the metrics endpoint (daemon_metrics.cc)
  Status start_metrics();
  Reading reading();
  GuestReading reading_of(const Worker& worker);
  std::string tenant_of(const Worker& worker) const;
  void stop_requested(int connection, const protocol::StopRequest& request);
  static Status draining_refusal();
  bool may_administer(int connection) const;
  bool trusted(uid_t uid, pid_t pid) const;

  // seeing and steering (daemon_steer.cc)
  // Whom this connection's user may see: everybody, or only its own guests.
  bool may_see(int connection, const Worker& worker) const;
  protocol::GuestsReply guests_after(int connection, uint64_t session) const;
  protocol::GuestState state_of(const Worker& worker) const;
  void steer(int connection, const protocol::SteerRequest& request);
  Result<protocol::SteerReply> limit(const protocol::SteerRequest& request);
  Status set_memory(Worker* worker, uint64_t bytes);
  // What a guest may have of its devices' time, from the next turn on.
  void set_share(Worker* worker, const scheduler::Share& share);
  void set_os_weight(const Worker& worker) const;
  Status send_order(Worker* worker);
  void obeyed(Worker* worker, const WorkerObeyed& message);
  // The ledgers no longer count what guests have given back that were over their grants.
  void settle();
  void count_held(Worker* worker, const uint64_t* used_bytes);
  Worker* find_session(uint64_t session) const;
  TenantBound bound_of(const std::string& tenant) const;
  void reload();

  Status listen();
  Status watch_signals();
  Status start_turns();
  void signalled();
  void end_all(bool guests_too);
  uint32_t guest_count() const;

  DaemonOptions options_;
  EventLoop loop_;
  Ledgers ledgers_;
  std::vector<DeviceIdentity> identities_;  // of the devices that are served
  UniqueFd listener_, signals_;
  Doors doors_;
  std::map<int, FoundWorker> found_;  // that have not spoken yet
  std::map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Gate>> gates_;
  std::unique_ptr<TurnKeeper> turns_;  // ends before the pages that it reads
  std::map<int, Unheard> unheard_;
  std::deque<QueuedGuest> queue_;
  MpsFolders mps_folders_;
  std::map<std::string, std::unique_ptr<MpsTenant>> mps_;  // by tenant
  bool mps_swept_ = false;  // what an earlier server has left is gone
  WorkerReady ready_;       // what the first worker has said
  bool devices_known_ = false;
  bool os_weights_ = false;  // the operating system hears of shares too
  uint64_t headroom_ = 0;    // of each device
  int start_failures_ = 0;
  bool start_again_ = false;    // the system gave no process: it is asked again soon
  bool users_used_up_ = false;  // which has been said
  bool accept_again_ = false;   // no descriptor was left for who came
  uint64_t started_ms_ = 0;
  uint64_t next_session_ = 0;
  WorkerId last_session_id_ = 0;  // of packed guests; they count down
  Accounts accounts_;
  Rates rates_;
  uint64_t attached_ = 0, refused_ = 0, failed_workers_ = 0;
  std::unique_ptr<MetricsEndpoint> metrics_;
  bool stopping_ = false;
  bool draining_ = false;  // no new guests
  bool force_ = false;
  int exit_code_ = 0;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_DAEMON_H_
