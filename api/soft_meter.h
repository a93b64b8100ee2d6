// What the software GPU tells a server of the work that it is given: a private table of
// cuGetExportTable, which no other driver has. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_SOFT_METER_H_
#define VGPU_API_SOFT_METER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace vgpu {

inline constexpr CUuuid kSoftMeterId = {
    {'v', 'g', 'p', 'u', '-', 's', 'o', 'f', 't', '-', 'm', 'e', 't', 'e', 'r', '1'}};

// Called from threads of the device, some with its lock held: short, and no calls of the driver.
struct SoftMeterHooks {
  void* context = nullptr;
  // A piece has used so much more device time: CPU time, and where it ran on one of n SMs an n-th.
  void (*used)(void* context, uint64_t note, uint64_t ns) = nullptr;
  // All of a piece is past, what its kernels launched included; it has used `ns` in all.
  void (*done)(void* context, uint64_t kind, uint64_t note, uint64_t ns) = nullptr;
};

struct SoftMeterTable {
  size_t bytes = sizeof(SoftMeterTable);
  // Once, before the first piece. The hooks stay for the life of the process.
  void (*start)(const SoftMeterHooks* hooks) = nullptr;
  // Calls body(argument); all that it gives the driver on this thread is one piece, which is known
  // by `kind` and `note`. done() is called before the return when it gives nothing.
  void (*piece)(uint64_t kind, uint64_t note, void (*body)(void* argument),
                void* argument) = nullptr;
  // How long a kernel may run: then it ends with CUDA_ERROR_LAUNCH_TIMEOUT in its context. Before
  // the first launch; of several the shortest counts. 0 sets none.
  void (*limit_kernels)(uint64_t ms) = nullptr;
};

}  // namespace vgpu

#endif  // VGPU_API_SOFT_METER_H_
