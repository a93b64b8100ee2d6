// What sessions of one user share: the names that a guest hands to another, and what it gets for
// one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_SHARE_H_
#define VGPU_SHIM_SHARE_H_

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "shim/device.h"
#include "shim/session.h"

namespace vgpu::shim {

// Kinds on the wire.
inline constexpr uint32_t kSharedPhysical = 1, kSharedMemory = 2, kSharedEvent = 3, kSharedPool = 4;

// Whether the worker's driver hands memory to other processes, and there are addresses for it.
bool shares_memory(const Session& session);
bool shares_events(const Session& session);

// A new descriptor that holds the name, for other processes. OUT_OF_MEMORY: the system gives none.
CUresult write_name(Session& session, const ShareName& name, int* descriptor);
// False: the descriptor is none of write_name().
bool read_name(int descriptor, ShareName* name);

// Work of a shared event: the worker's answer is waited for, so that others see it once the caller
// says so. (ipc_event.cc)
CUresult record_shared(Session& session, Context* context, uint64_t id, Event& event,
                       const StreamRef& stream);
CUresult wait_for_shared(Session& session, Context* context, uint64_t id, const StreamRef& stream);
// The same of a whole context, and of a graph with such events; note(number): under the channel's
// lock.
CUresult record_shared_behind_all(Session& session, Context* context, uint64_t id, Event& event);
CUresult wait_everywhere_for_shared(Session& session, Context* context, uint64_t id);
CUresult launch_with_shared(Session& session, Context* context, const wire::GraphLaunchArgs& args,
                            const StreamRef& stream, const std::function<void(uint64_t)>& note);

// The name of the allocation that holds `address`, of a pool's block if `pooled`. INVALID_VALUE:
// there is none. (ipc.cc)
CUresult share_block(Session& session, uint64_t address, bool pooled, ShareName* name);
// Memory of another guest's, at addresses of ours, for `device`; of context `context`, 0: of none.
struct PeerBlock {
  uint64_t address = 0, bytes = 0;
};
CUresult open_block(Session& session, const ShareName& name, CUdevice device, uint64_t context,
                    PeerBlock* block);
// Takes away what begins at `address`, when what is in flight is past.
CUresult close_block(Session& session, uint64_t address);
// Memory of others that a context has opened goes with it. (ipc.cc)
void close_opened(Session& session, const Context* context);

// Something of another session's that the worker keeps for this guest, until it is used or this
// object goes.
class FetchedShare {
 public:
  FetchedShare() = default;
  FetchedShare(const FetchedShare&) = delete;
  FetchedShare& operator=(const FetchedShare&) = delete;
  ~FetchedShare();

  // Waits for the other session's worker. INVALID_VALUE when nothing of that kind has the name.
  CUresult fetch(Session& session, const ShareName& name, uint32_t kind);
  uint64_t number() const { return number_; }
  uint64_t bytes() const { return bytes_; }    // whole pieces
  uint64_t offset() const { return offset_; }  // of what was shared, in them
  uint64_t size() const { return size_; }
  CUdevice device() const { return device_; }  // on which it is
  // The next record takes it, whatever comes of that.
  void used() { session_ = nullptr; }
  // A command that takes it unless there is no memory, and its answer; room is made once.
  template <typename Args>
  CUresult use(Op op, const Args& args) {
    CUresult result = session_->call(nullptr, op, args);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && session_->reclaim(device_, bytes_))
      result = session_->call(nullptr, op, args);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) session_ = nullptr;
    return result;
  }

 private:
  Session* session_ = nullptr;
  uint64_t number_ = 0, bytes_ = 0, offset_ = 0, size_ = 0;
  CUdevice device_ = 0;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_SHARE_H_
