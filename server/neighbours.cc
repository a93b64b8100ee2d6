// Telling all sessions of a process that a context of theirs is broken.
// SPDX-License-Identifier: Apache-2.0
#include "server/neighbours.h"

#include "server/session.h"

namespace vgpu::server {

void Neighbours::add(Session* session) {
  std::lock_guard lock(mutex_);
  sessions_.push_back(session);
}

void Neighbours::remove(Session* session) {
  std::lock_guard lock(mutex_);
  std::erase(sessions_, session);
}

void Neighbours::faulted(const Session* from, CUcontext context, CUresult result) {
  std::lock_guard lock(mutex_);
  if (broken_) std::exchange(broken_, nullptr)();
  for (Session* session : sessions_) {
    if (session != from) session->hear_of_fault(context, result);
  }
}

}  // namespace vgpu::server
