// Work of a stream on memory of another device than its own. Memory that the guest has mapped is
// its device's alone until others are given access, so the work is done there: between two events,
// in the order of the stream that it belongs to. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_FOREIGN_H_
#define VGPU_SERVER_FOREIGN_H_

#include <shared_mutex>

#include "server/session.h"

namespace vgpu::server {

// Where work on some memory is done. A value: may be kept in a lane.
class WorkPlace {
 public:
  WorkPlace() = default;
  // For `stream` on memory of `device`, the guest's number; -1: it is nobody's, or the host's.
  WorkPlace(const Session& session, const Stream& stream, int device);

  // call(stream): what the driver is to do. The context of `stream` is current, before and after.
  template <typename Call>
  CUresult run(const DriverTable& driver, CUstream stream, Call call) const {
    if (owner_ == nullptr) [[likely]]
      return call(stream);
    const std::shared_lock life(owner_->lives());
    const CUcontext there = owner_->primary();
    if (there == nullptr)
      return call(stream);  // closed meanwhile: nobody has access there any more
    Detour detour;
    CUresult result = begin(driver, there, stream, &detour);
    if (result == CUDA_SUCCESS) result = call(detour.stream);
    return end(driver, stream, &detour, result);
  }

 private:
  struct Detour {
    CUstream stream = nullptr;
    CUevent before = nullptr, after = nullptr;
  };
  static CUresult begin(const DriverTable& driver, CUcontext there, CUstream stream,
                        Detour* detour);
  CUresult end(const DriverTable& driver, CUstream stream, Detour* detour, CUresult result) const;

  CUcontext here_ = nullptr;
  const Device* owner_ = nullptr;  // null: the memory is on the stream's own device
};

// Calls copy(context of `to`, context of `from`) while neither is closed; both null when one is.
template <typename Copy>
CUresult between(const Device& to, const Device& from, Copy copy) {
  const std::shared_lock first(to.lives());
  const std::shared_lock second(from.lives());
  const CUcontext there = to.primary(), here = from.primary();
  return there == nullptr || here == nullptr ? copy(nullptr, nullptr) : copy(there, here);
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_FOREIGN_H_
