// Counting what the driver has of a stream, by events of ours between its work.
// SPDX-License-Identifier: Apache-2.0
#include "server/objects.h"

namespace vgpu::server {

StreamFlow::~StreamFlow() {
  for (CUevent event : events_) {
    if (event != nullptr) context_->events.give(event);
  }
}

void StreamFlow::pop() {
  first_ = (first_ + 1) % kFlowCheckpointsMax;
  --open_;
}

// In a broken context there is no event, and nothing that would fill a queue.
void StreamFlow::checkpoint(const DriverTable& driver, CUstream stream) {
  since_ = 0;
  CUevent& event = events_[(first_ + open_) % kFlowCheckpointsMax];
  if (event == nullptr && context_->events.take(driver, &event) != CUDA_SUCCESS) return;
  if (driver.cuEventRecord(event, stream) == CUDA_SUCCESS) ++open_;
}

bool StreamFlow::reclaim(const DriverTable& driver) {
  while (open_ != 0 && driver.cuEventQuery(events_[first_]) != CUDA_ERROR_NOT_READY) pop();
  return !full();
}

void StreamFlow::wait_for_room(const DriverTable& driver) {
  if (!full() || reclaim(driver)) return;
  (void)driver.cuEventSynchronize(events_[first_]);
  pop();
}

}  // namespace vgpu::server
