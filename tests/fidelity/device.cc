// Devices: ordinals, attributes, names.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kNoAttribute = static_cast<CUdevice_attribute>(9999);
constexpr auto kZeroAttribute = static_cast<CUdevice_attribute>(0);
constexpr auto kNegativeAttribute = static_cast<CUdevice_attribute>(-5);
constexpr auto kWarpSize = CU_DEVICE_ATTRIBUTE_WARP_SIZE;
constexpr auto kRank = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
constexpr auto kNoRank = static_cast<CUdevice_P2PAttribute>(77);
constexpr auto kSmCount = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
constexpr auto kNoAffinity = static_cast<CUexecAffinityType>(55);
constexpr auto kHalf = CU_AD_FORMAT_HALF;
constexpr auto kNoFormat = static_cast<CUarray_format>(0);
constexpr CUdevice kFar = 7;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetCount(&w.i)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGet(&w.d, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetName(w.name, 64, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetUuid_v2(&w.uuid, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceTotalMem_v2(&w.size, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetAttribute(&w.i, kWarpSize, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceComputeCapability(&w.i, &w.i2, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetProperties(&w.properties, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetPCIBusId(w.name, 64, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetByPCIBusId(&w.d, "0000:01:00.0")),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceCanAccessPeer(&w.i, 0, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetP2PAttribute(&w.i, kRank, 0, 1)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetExecAffinitySupport(&w.i, kSmCount, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetTexture1DLinearMaxWidth(&w.size, kHalf, 1, 0)),

    ROW(kNoContext, kOk, kDocumented, cuDeviceGetCount(&w.i)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetCount(nullptr)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGet(nullptr, 0)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGet(&w.d, -1)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGet(&w.d, kFar)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGet(&w.d, 0x7fffffff)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetName(nullptr, 64, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetName(w.name, 0, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetName(w.name, -1, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetName(w.name, 64, -1)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetName(w.name, 64, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetUuid_v2(nullptr, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetUuid_v2(&w.uuid, -1)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetUuid_v2(&w.uuid, kFar)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetLuid(w.name, &w.u, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceTotalMem_v2(nullptr, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceTotalMem_v2(&w.size, -1)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceTotalMem_v2(&w.size, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetAttribute(nullptr, kWarpSize, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetAttribute(&w.i, kNoAttribute, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetAttribute(&w.i, kZeroAttribute, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetAttribute(&w.i, kNegativeAttribute, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetAttribute(&w.i, kWarpSize, -1)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetAttribute(&w.i, kWarpSize, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceComputeCapability(nullptr, &w.i, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceComputeCapability(&w.i, nullptr, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceComputeCapability(&w.i, &w.i2, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetProperties(nullptr, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetProperties(&w.properties, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetPCIBusId(nullptr, 64, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetPCIBusId(w.name, 0, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetPCIBusId(w.name, 64, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetByPCIBusId(nullptr, "0000:01:00.0")),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetByPCIBusId(&w.d, nullptr)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetByPCIBusId(&w.d, "no bus id")),
    ROW(kNoContext, kValue, kDocumented, cuDeviceGetByPCIBusId(&w.d, "")),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetByPCIBusId(&w.d, "1234:fe:1e.0")),
    ROW(kNoContext, kValue, kDocumented, cuDeviceCanAccessPeer(nullptr, w.device, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceCanAccessPeer(&w.i, kFar, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceCanAccessPeer(&w.i, w.device, kFar)),
    ROW(kNoContext, kOk, kDocumented, cuDeviceCanAccessPeer(&w.i, w.device, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetP2PAttribute(&w.i, kRank, w.device, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetP2PAttribute(&w.i, kRank, kFar, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetP2PAttribute(&w.i, kRank, w.device, -1)),
    ROW(kNoContext, kValue, kDocumented,
        cuDeviceGetExecAffinitySupport(nullptr, kSmCount, w.device)),
    ROW(kNoContext, kValue, kDocumented,
        cuDeviceGetExecAffinitySupport(&w.i, kNoAffinity, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetExecAffinitySupport(&w.i, kSmCount, kFar)),
    ROW(kNoContext, kDevice, kDocumented,
        cuDeviceGetTexture1DLinearMaxWidth(&w.size, kHalf, 1, kFar)),
    ROW(kNoContext, kValue, kDocumented,
        cuDeviceGetTexture1DLinearMaxWidth(nullptr, kHalf, 1, w.device)),
    ROW(kNoContext, kValue, kDocumented,
        cuDeviceGetTexture1DLinearMaxWidth(&w.size, kNoFormat, 1, w.device)),
    ROW(kNoContext, kValue, kDocumented,
        cuDeviceGetTexture1DLinearMaxWidth(&w.size, kHalf, 3, w.device)),
    ROW(kNoContext, kValue, kDocumented,
        cuDeviceGetTexture1DLinearMaxWidth(&w.size, kHalf, 0, w.device)),

    ROW(kFresh, kNotInit, kDocumented, cuDeviceTotalMem(&w.u, 0)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceTotalMem(nullptr, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceTotalMem(&w.u, kFar)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetHostAtomicCapabilities(&w.u, nullptr, 1, 0)),
    ROW(kNoContext, kDevice, kDocumented,
        cuDeviceGetHostAtomicCapabilities(&w.u, nullptr, 1, kFar)),
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetP2PAtomicCapabilities(&w.u, nullptr, 1, 0, 1)),
    ROW(kNoContext, kDevice, kDocumented,
        cuDeviceGetP2PAtomicCapabilities(&w.u, nullptr, 1, w.device, w.device)),
    ROW(kNoContext, kDevice, kDocumented,
        cuDeviceGetP2PAtomicCapabilities(&w.u, nullptr, 1, kFar, w.device)),
    ROW(kFresh, kNotInit, kOurs, cuDeviceUnregisterAsyncNotification(0, nullptr)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceUnregisterAsyncNotification(kFar, nullptr)),
    ROW(kNoContext, kValue, kDocumented, cuDeviceUnregisterAsyncNotification(w.device, nullptr)),

    // A broken context is no business of the device's.
    ROW(kFault, kOk, kDocumented, cuDeviceGetCount(&w.i)),
    ROW(kFault, kOk, kDocumented, cuDeviceGetAttribute(&w.i, kWarpSize, w.device)),
    ROW(kForked, kNotInit, kOurs, cuDeviceGetCount(&w.i)),
    ROW(kForked, kNotInit, kOurs, cuDeviceGet(&w.d, 0)),
    ROW(kForked, kNotInit, kOurs, cuDeviceGetName(w.name, 64, 0)),
    ROW(kForked, kNotInit, kOurs, cuDeviceGetAttribute(&w.i, kWarpSize, 0)),
    ROW(kForked, kNotInit, kOurs, cuDeviceTotalMem_v2(&w.size, 0)),
};

}  // namespace

const std::span<const Row> kDeviceRows = kRows;

}  // namespace vgpu::fidelity
