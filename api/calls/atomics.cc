// Which atomic operations a link between a device and the host, or another device, carries
// natively. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "driver_functions.h"

namespace vgpu::driver {
namespace {

// What PTX offers on addresses of global memory. Devices with native atomics between them are
// software GPUs of one process: their memory is one, and so are their operations.
unsigned capabilities_of(CUatomicOperation operation) {
  constexpr unsigned kSigned = CU_ATOMIC_CAPABILITY_SIGNED,
                     kUnsigned = CU_ATOMIC_CAPABILITY_UNSIGNED,
                     kReduction = CU_ATOMIC_CAPABILITY_REDUCTION,
                     k32 = CU_ATOMIC_CAPABILITY_SCALAR_32, k64 = CU_ATOMIC_CAPABILITY_SCALAR_64,
                     k128 = CU_ATOMIC_CAPABILITY_SCALAR_128;
  switch (operation) {
    case CU_ATOMIC_OPERATION_INTEGER_ADD:
    case CU_ATOMIC_OPERATION_INTEGER_MIN:
    case CU_ATOMIC_OPERATION_INTEGER_MAX:
      return kSigned | kUnsigned | kReduction | k32 | k64;
    case CU_ATOMIC_OPERATION_INTEGER_INCREMENT:
    case CU_ATOMIC_OPERATION_INTEGER_DECREMENT:
      return kUnsigned | kReduction | k32;
    case CU_ATOMIC_OPERATION_AND:
    case CU_ATOMIC_OPERATION_OR:
    case CU_ATOMIC_OPERATION_XOR:
      return kSigned | kUnsigned | kReduction | k32 | k64;
    case CU_ATOMIC_OPERATION_EXCHANGE:
    case CU_ATOMIC_OPERATION_CAS:
      return kSigned | kUnsigned | k32 | k64 | k128;
    case CU_ATOMIC_OPERATION_FLOAT_ADD:
      return kSigned | kReduction | k32 | k64;
    default:
      return 0;  // there are no minima and maxima of floats
  }
}

CUresult answer(unsigned* capabilities, const CUatomicOperation* operations, unsigned count,
                bool native) {
  if (capabilities == nullptr || operations == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const bool known = std::all_of(operations, operations + count, [](CUatomicOperation each) {
    return static_cast<unsigned>(each) < CU_ATOMIC_OPERATION_MAX;
  });
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    capabilities[i] = native ? capabilities_of(operations[i]) : 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities,
                                           const CUatomicOperation* operations, unsigned int count,
                                           CUdevice device) {
  int native = 0;
  const CUresult r = driver::cuDeviceGetAttribute(
      &native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, device);
  if (r != CUDA_SUCCESS) return r;
  // Only a real device says so, behind whose guest the operations are not known.
  if (native != 0) return driver::not_served("cuDeviceGetHostAtomicCapabilities");
  return answer(capabilities, operations, count, false);
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities,
                                          const CUatomicOperation* operations, unsigned int count,
                                          CUdevice source, CUdevice destination) {
  int native = 0;
  const CUresult r = driver::cuDeviceGetP2PAttribute(
      &native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, source, destination);
  return r == CUDA_SUCCESS ? answer(capabilities, operations, count, native != 0) : r;
}

}  // namespace vgpu::driver
