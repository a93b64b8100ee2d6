// Work of a stream on memory of another device than its own. Memory that the guest has mapped is
// its device's alone until others are given access, so the work is done there: between two events,
// in the order of the stream that it belongs to. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_FOREIGN_H_
#define VGPU_SERVER_FOREIGN_H_

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
    if (there_ == nullptr) [[likely]]
      return call(stream);
    Detour detour;
    CUresult result = begin(driver, stream, &detour);
    if (result == CUDA_SUCCESS) result = call(detour.stream);
    return end(driver, stream, &detour, result);
  }

 private:
  struct Detour {
    CUstream stream = nullptr;
    CUevent before = nullptr, after = nullptr;
  };
  CUresult begin(const DriverTable& driver, CUstream stream, Detour* detour) const;
  CUresult end(const DriverTable& driver, CUstream stream, Detour* detour, CUresult result) const;

  CUcontext here_ = nullptr;
  CUcontext there_ = nullptr;  // null: the memory is on the stream's own device
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_FOREIGN_H_
