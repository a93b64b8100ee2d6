// The agent in a virtual machine: a server's socket for the machine's programs, behind which stands
// the host. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_AGENT_H_
#define VGPU_VM_AGENT_H_

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "protocol/mailbox/mailbox.h"
#include "protocol/session/messages.h"
#include "vm/beats.h"
#include "vm/interrupt.h"
#include "vm/region_file.h"

namespace vgpu::vm {

struct AgentOptions {
  std::string region = "ivshmem:";  // as open_region takes it
  std::string listen;               // path of the socket for programs
  unsigned socket_mode = 0666;
  bool interrupts = false;  // the device's, through VFIO: its threads sleep instead of taking naps
};

// Not thread-safe but for the thread that takes interrupts: everything happens in run_once(). A
// program says to the socket what it would say to vgpud, and gets the host's answer with the
// device's memory; from then on its data does not pass through here. Its end, and the host's, are
// told to the other side.
class Agent {
 public:
  static Result<std::unique_ptr<Agent>> create(AgentOptions options);

  // Waits once for something to do, at most timeout_ms, and does it.
  void run_once(int timeout_ms);
  // Whether the host's program has taken this agent up.
  bool established() const;

 private:
  // A program, from accept until both sides are done with it.
  struct Client {
    UniqueFd socket;  // invalid: there is none
    UniqueFd process;
    int64_t since_ns = 0;    // when it came
    bool spoke = false;      // its message has been sent on
    bool gone = false;       // the program has ended or hung up
    bool host_done = false;  // the host has said bye
    bool bye_sent = false;
    bool in_use() const { return socket.valid() || (spoke && !(host_done && bye_sent)); }
  };

  explicit Agent(AgentOptions options) : options_(std::move(options)) {}
  Status open();
  void establish();
  void look_at_host();
  void drop_clients();
  bool accepts() const;
  void accept_all();
  void look_at(uint32_t number, const pollfd& socket, const pollfd& process);
  void heard(uint32_t number);
  void read_mail();
  void said(uint32_t number, const std::vector<uint8_t>& bytes);
  void send_byes();
  void ring_host() const;
  int wait_ms(int timeout_ms) const;
  protocol::RegionHeader* header() const;

  const AgentOptions options_;
  RegionFile region_;
  Mapping memory_, registers_;
  std::unique_ptr<protocol::Mailbox> mail_;
  std::unique_ptr<Interrupt> interrupt_;  // null: none can be taken
  UniqueFd listener_;
  std::vector<Client> clients_{protocol::kVmConnectionsMax};
  uint64_t epoch_ = 0;
  bool was_established_ = false;
  Beats beats_;
  int64_t active_until_ns_ = 0;
  int64_t patient_until_ns_ = 0;  // programs wait for the host instead of being refused
};

}  // namespace vgpu::vm

#endif  // VGPU_VM_AGENT_H_
