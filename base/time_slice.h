// How long a thread runs before others may have its processor: for those who answer others.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_TIME_SLICE_H_
#define VGPU_BASE_TIME_SLICE_H_

namespace vgpu {

// The calling thread, and threads that it makes from now on, run for short times, and are let in
// as soon as they have something to do although others compute on every processor; the share of the
// processors stays the same. Linux 6.12 and later; elsewhere it does nothing. Needs no privilege.
void use_short_time_slices();
// Back to what the system does for everybody: for threads that compute.
void use_usual_time_slices();

}  // namespace vgpu

#endif  // VGPU_BASE_TIME_SLICE_H_
