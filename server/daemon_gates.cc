// vgpud's gates: processes that listen on a network, check keys, and hand remote guests in.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "protocol/transport/spawn.h"
#include "server/daemon.h"
#include "server/log.h"

namespace vgpu::server {
void Daemon::start_gates() {
  for (const auto& gate : gates_) {
    const bool due = gate->started_ms == 0 || monotonic_ms() - gate->started_ms >= kGateRestartMs;
    if (gate->pid != 0 || !due || stopping_) continue;
    if (const Status started = start_gate(gate.get()); !started.ok()) {
      log(Level::kError, "cannot start the gate at %s: %s", gate->address.c_str(),
          started.to_string().c_str());
      stopping_ = true;
      exit_code_ = 1;
    }
  }
}

Status Daemon::start_gate(Gate* gate) {
  std::vector<std::string> arguments = {"--listen",           gate->address, "--vgpud",
                                        options_.listen_path, "--log-level", options_.log_level};
  if (!options_.server_key.empty())
    arguments.insert(arguments.end(), {"--key", options_.server_key});
  if (!options_.authorized_keys.empty())
    arguments.insert(arguments.end(), {"--authorized", options_.authorized_keys});
  if (gate->users.any()) arguments.insert(arguments.end(), {"--session-users", gate->users.text()});
  if (options_.require_encryption) arguments.push_back("--require-encryption");
  if (options_.network_grace != 0)
    arguments.insert(arguments.end(), {"--grace", std::to_string(options_.network_grace * 1000)});
  Result<protocol::Spawned> spawned = protocol::spawn(options_.gate_program, arguments);
  if (!spawned.ok()) return spawned.status();
  gate->pid = spawned->pid;
  gate->started_ms = monotonic_ms();
  gate->control = std::move(spawned->control);
  gate->process = std::move(spawned->process);
  gate->report = {};
  VGPU_RETURN_IF_ERROR(loop_.add(gate->process.get(), [this, gate] { gate_ended(gate); }));
  return loop_.add(gate->control.get(), [this, gate] { gate_spoke(gate); });
}

void Daemon::gate_spoke(Gate* gate) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(gate->control.get(), 0);
  if (!frame.ok()) {
    // Its end is told by the process descriptor.
    if (frame.status().code() != StatusCode::kTimedOut) loop_.remove(gate->control.get());
    return;
  }
  protocol::GateMessage head;
  if (frame->bytes.size() >= sizeof(head)) std::memcpy(&head, frame->bytes.data(), sizeof(head));
  if (frame->bytes.size() < sizeof(head) || head.magic != protocol::kGateMagic) {
    log(Level::kError, "the gate at %s is of another version", gate->address.c_str());
    (void)kill(gate->pid, SIGKILL);
    return;
  }
  if (head.kind == protocol::GateMessageKind::kGuest && frame->descriptors.size() == 1) {
    UniqueFd connection = std::move(frame->descriptors[0]);
    remote_guest(*frame, std::move(connection));
  } else if (head.kind == protocol::GateMessageKind::kReport &&
             frame->bytes.size() == sizeof(gate->report)) {
    std::memcpy(static_cast<void*>(&gate->report), frame->bytes.data(), sizeof(gate->report));
    if (!gate->ready) {
      log(Level::kInfo, "listening on %s with the key %s", get_text(gate->report.endpoint).c_str(),
          get_text(gate->report.public_key).c_str());
    }
    gate->ready = true;
  }
}

// As a local guest's first message, but that the gate says whose guest it is.
void Daemon::remote_guest(const protocol::ControlFrame& frame, UniqueFd connection) {
  protocol::GateGuest guest;
  if (frame.bytes.size() < sizeof(guest)) return;
  std::memcpy(static_cast<void*>(&guest), frame.bytes.data(), sizeof(guest));
  Result<protocol::Message> message = protocol::decode_message(
      std::span<const uint8_t>(frame.bytes).subspan(sizeof(protocol::GateGuest)));
  auto* hello = message.ok() ? std::get_if<protocol::Hello>(&*message) : nullptr;
  if (hello == nullptr || hello->tenant.empty()) {
    refuse(connection.get(), Status(StatusCode::kMalformed, "the gate's guest says no hello"));
    return;
  }
  greet(std::move(connection), std::move(*hello), guest.pid, kRemoteUser);
}

void Daemon::gate_ended(Gate* gate) {
  int status = 0;
  (void)waitpid(gate->pid, &status, 0);
  loop_.remove(gate->process.get());
  loop_.remove(gate->control.get());
  gate->control.reset();
  gate->process.reset();
  gate->pid = 0;
  if (gate->ready) {
    log(Level::kError, "the gate at %s has ended (status %d); it is started again",
        gate->address.c_str(), status);
    return;
  }
  // It has said why.
  log(Level::kError, "cannot listen on %s", gate->address.c_str());
  stopping_ = true;
  exit_code_ = 1;
}

std::vector<protocol::NetworkUse> Daemon::networks() const {
  std::vector<protocol::NetworkUse> uses;
  for (const auto& gate : gates_) {
    const protocol::GateReport& report = gate->report;
    if (!gate->ready) continue;
    uses.push_back({get_text(report.endpoint), get_text(report.public_key), report.guests,
                    report.connections, report.attached, report.refused, report.strangers,
                    report.malformed});
  }
  return uses;
}

}  // namespace vgpu::server
