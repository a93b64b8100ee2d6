// The version that the shim answers to cuDriverGetVersion.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_DRIVER_VERSION_H_
#define VGPU_SHIM_DRIVER_VERSION_H_

namespace vgpu::shim {

// The server's driver's version, as 13000; of the headers that the shim was built with where no
// server answers. Needs no session: without one the server is asked on a connection of its own,
// which is closed again, so that a process may still fork afterwards. libcudart asks before cuInit
// and puts what it heard into its self-test, so the first answer stays. Thread-safe.
int driver_version();

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_DRIVER_VERSION_H_
