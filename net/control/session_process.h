// The process that stands for one remote guest on the server.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_SESSION_PROCESS_H_
#define VGPU_NET_CONTROL_SESSION_PROCESS_H_

#include <sys/types.h>

#include <string>

namespace vgpu::net {

struct SessionOptions {
  int control = -1;       // to the gate
  int worker = -1;        // to vgpud, and then to the worker: what a local guest's socket is
  std::string data_host;  // where the data connection is taken
  uid_t user = 0;         // that it becomes first; 0: it stays who it is
};

// Takes a NetAttach from the gate and the worker's answer to the hello, which the gate has handed
// to vgpud; says NetAttached (or Refusal); then stands between worker and guest until one of them,
// or the gate, is gone. Returns the exit code. It holds nothing but its guest's session: who gets
// hold of this process is where its guest was.
int run_session(const SessionOptions& options);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_SESSION_PROCESS_H_
