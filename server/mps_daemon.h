// One tenant's MPS control daemon: its folders, its process, what its clients are told. Unverified
// until run on hardware.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_MPS_DAEMON_H_
#define VGPU_SERVER_MPS_DAEMON_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/errands.h"
#include "server/mps_control.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr int kMpsStartMs = 10'000;  // for a daemon to answer
inline constexpr int kMpsEndMs = 2000;      // for MPS to let go of a client
inline constexpr int kMpsQuitMs = 2000;     // for a daemon to end
// What a client's context takes of a device beside its guest's memory: MPS counts both.
inline constexpr uint64_t kMpsContextBytes = uint64_t{640} << 20;

// The folder of all daemons' folders beside vgpud's own socket. Each is named by a number. It is
// the server's, so that what stands in it is: `pipe` and `log`, which are the daemon's user's and
// nobody else's, and a file whose name is the daemon's process. Nothing is read or written in the
// first two, which a worker that was taken over can change.
class MpsFolders {
 public:
  explicit MpsFolders(const std::string& listen_path) : root_(listen_path + ".mps") {}

  // Makes a folder with a number that none has. kPermissionDenied when the root is somebody else's.
  Result<uint32_t> make(uid_t user) const;
  std::vector<uint32_t> numbers() const;
  std::string path(uint32_t number) const { return root_ + "/" + std::to_string(number); }
  // Whose daemon it is; 0 also when it is not there.
  uid_t user_of(uint32_t number) const;
  // With all that is in it; no link is followed.
  void remove(uint32_t number) const;

 private:
  std::string root_;
};

// For vgpud's one thread: what waits is done by errands.
class MpsDaemon {
 public:
  enum class State { kDown, kStarting, kReady };

  // The folder is there. kResourceExhausted: no thread for errands.
  static Result<std::unique_ptr<MpsDaemon>> create(const std::string& program,
                                                   const MpsFolders& folders, uint32_t number,
                                                   uid_t user);

  // Starts the program: kStarting.
  Status start();
  // Takes over the one that an earlier server has started: kReady; false when none is left.
  bool find();
  // Its process has ended: kDown.
  void ended();
  // Its process is killed, as its last resort or because it never answered.
  void kill_hard() const;

  State state() const { return state_; }
  void set_ready() { state_ = State::kReady; }
  int process() const { return process_.get(); }  // pidfd, borrowed; -1: none
  uint32_t number() const { return number_; }
  uid_t user() const { return user_; }
  const MpsControl& control() const { return control_; }
  Errands& errands() { return *errands_; }
  // What a client's environment says: whose it is, the most of the multiprocessors that it uses,
  // and of the memory of each device. `ordinals`: the driver's numbers of the granted devices.
  std::vector<std::string> client_settings(uint32_t thread_percent, const WorkerGrants& grants,
                                           const std::vector<int32_t>& ordinals) const;

 private:
  MpsDaemon(MpsControl control, std::string folder, uint32_t number, uid_t user,
            std::unique_ptr<Errands> errands)
      : control_(std::move(control)),
        folder_(std::move(folder)),
        number_(number),
        user_(user),
        errands_(std::move(errands)) {}
  std::string pipe_directory() const { return folder_ + "/pipe"; }

  const MpsControl control_;
  const std::string folder_;
  const uint32_t number_;
  const uid_t user_;
  State state_ = State::kDown;
  pid_t pid_ = 0;
  bool child_ = false;  // ours to wait for; false: an earlier server's
  UniqueFd process_;
  std::string marker_;  // the file whose name is the process
  std::unique_ptr<Errands> errands_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_MPS_DAEMON_H_
