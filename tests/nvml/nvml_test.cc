// NVML says what CUDA in the same guest says; of others it says nothing.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "api/visible_devices.h"
#include "tests/nvml/fixture.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

template <typename Function>
Function cuda(const char* name) {
  static void* const library = ::dlopen(GUEST_CUDA, RTLD_NOW);
  return reinterpret_cast<Function>(::dlsym(library, name));
}
#define CUDA(name) (cuda<decltype(&::name)>(#name))

// The library keeps an answer for 100 ms; after that it asks anew.
void wait_for_fresh_figures() { (void)::poll(nullptr, 0, 110); }

nvmlMemory_t memory_of(nvmlDevice_t device) {
  wait_for_fresh_figures();
  nvmlMemory_t memory{};
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), NVML_SUCCESS);
  return memory;
}

TEST_F(NvmlTest, InitialisationIsCounted) {
  EXPECT_EQ(NVML(nvmlInit)(), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlInitWithFlags)(NVML_INIT_FLAG_NO_GPUS), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  unsigned int count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(NVML(nvmlDeviceGetTemperature)(device_, NVML_TEMPERATURE_GPU, &count),
            NVML_ERROR_UNINITIALIZED);
}

TEST_F(NvmlTest, TakesNoWorker) {
  nvmlUtilization_t utilization;
  EXPECT_EQ(NVML(nvmlDeviceGetUtilizationRates)(device_, &utilization), NVML_SUCCESS);
  EXPECT_EQ(utilization.gpu, 0u);
  const auto info = server_.info();
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->guests.empty());
}

TEST_F(NvmlTest, BeforeTheProgramHasASessionItShowsWhatItWouldGet) {
  const nvmlMemory_t memory = memory_of(device_);
  EXPECT_EQ(memory.total, 512 * kMiB);
  EXPECT_EQ(memory.used, 0u);
  EXPECT_EQ(memory.free, 512 * kMiB);
}

TEST_F(NvmlTest, AnotherProcessOfThisUserIsShownToAMonitor) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto attachment = protocol::attach(server_.address(), test_hello(64 * kMiB), 20'000);
    if (attachment.status.ok()) ::pause();
    ::_exit(1);
  }
  ASSERT_TRUE(eventually([&] {
    const auto info = server_.info();
    return info && info->guests.size() == 1;
  }));
  EXPECT_EQ(memory_of(device_).total, 64 * kMiB);
  unsigned int count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device_, &count, nullptr),
            NVML_ERROR_INSUFFICIENT_SIZE);
  ASSERT_EQ(count, 1u);
  nvmlProcessInfo_t process{};
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device_, &count, &process), NVML_SUCCESS);
  EXPECT_EQ(process.pid, static_cast<unsigned int>(child));
  EXPECT_EQ(process.gpuInstanceId, 0xffffffffu);
  nvmlProcessInfo_v1_t first{};
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses)(device_, &count, &first), NVML_SUCCESS);
  EXPECT_EQ(first.pid, process.pid);
  nvmlProcessDetail_v1_t detail{};
  nvmlProcessDetailList_t list{nvmlProcessDetailList_v1, 0, 1, &detail};
  EXPECT_EQ(NVML(nvmlDeviceGetRunningProcessDetailList)(device_, &list), NVML_SUCCESS);
  EXPECT_EQ(detail.pid, process.pid);
  nvmlProcessUtilizationSample_t sample{};
  EXPECT_EQ(NVML(nvmlDeviceGetProcessUtilization)(device_, &sample, &count, 0), NVML_SUCCESS);
  EXPECT_EQ(sample.pid, process.pid);
  EXPECT_EQ(sample.smUtil, 0u);  // it does nothing
  EXPECT_EQ(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)(device_, &count, &process),
            NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
  ::kill(child, SIGKILL);
  (void)::waitpid(child, nullptr, 0);
}

// The one test here that makes this process a guest, which it then is for the rest of its life.
TEST_F(NvmlTest, AsCudaSays) {
  ASSERT_EQ(CUDA(cuInit)(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(CUDA(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(CUDA(cuCtxSetCurrent)(context), CUDA_SUCCESS);
  char text[96], cuda_text[96];
  EXPECT_EQ(NVML(nvmlDeviceGetName)(device_, text, sizeof(text)), NVML_SUCCESS);
  EXPECT_EQ(CUDA(cuDeviceGetName)(cuda_text, sizeof(cuda_text), 0), CUDA_SUCCESS);
  EXPECT_STREQ(text, cuda_text);
  CUuuid uuid;
  EXPECT_EQ(NVML(nvmlDeviceGetUUID)(device_, text, sizeof(text)), NVML_SUCCESS);
  EXPECT_EQ(CUDA(cuDeviceGetUuid_v2)(&uuid, 0), CUDA_SUCCESS);
  EXPECT_EQ(text, device_uuid_text(reinterpret_cast<const unsigned char*>(uuid.bytes)));
  EXPECT_EQ(CUDA(cuDeviceGetPCIBusId)(cuda_text, sizeof(cuda_text), 0), CUDA_SUCCESS);
  nvmlPciInfo_t pci;
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo_v3)(device_, &pci), NVML_SUCCESS);
  EXPECT_EQ(std::string("0000") + cuda_text, pci.busId);
  EXPECT_STREQ(pci.busIdLegacy, cuda_text);
  nvmlDevice_t same = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)(cuda_text, &same), NVML_SUCCESS);
  EXPECT_EQ(same, device_);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)(pci.busId, &same), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)(text, &same), NVML_SUCCESS);
  EXPECT_EQ(same, device_);
  int version = 0, cuda_version = 0, major = 0, minor = 0, cuda_major = 0;
  EXPECT_EQ(NVML(nvmlSystemGetCudaDriverVersion_v2)(&version), NVML_SUCCESS);
  EXPECT_EQ(CUDA(cuDriverGetVersion)(&cuda_version), CUDA_SUCCESS);
  EXPECT_EQ(version, cuda_version);
  EXPECT_EQ(NVML(nvmlDeviceGetCudaComputeCapability)(device_, &major, &minor), NVML_SUCCESS);
  EXPECT_EQ(
      CUDA(cuDeviceGetAttribute)(&cuda_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(major, cuda_major);

  size_t total = 0, free = 0;
  CUdeviceptr block = 0;
  EXPECT_EQ(CUDA(cuDeviceTotalMem_v2)(&total, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory_of(device_).total, total);
  EXPECT_EQ(CUDA(cuMemAlloc_v2)(&block, 100 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(CUDA(cuCtxSynchronize)(), CUDA_SUCCESS);
  EXPECT_TRUE(eventually([&] { return memory_of(device_).used >= 100 * kMiB; }));
  EXPECT_LT(memory_of(device_).used, 200 * kMiB);
  EXPECT_EQ(CUDA(cuMemGetInfo_v2)(&free, &total), CUDA_SUCCESS);
  EXPECT_LE(free, total - 100 * kMiB);
  unsigned int count = 1;
  nvmlProcessInfo_t process{};
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device_, &count, &process), NVML_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(process.pid, static_cast<unsigned int>(::getpid()));
  EXPECT_GE(process.usedGpuMemory, 100 * kMiB);
}

TEST_F(NvmlTest, AServerThatIsGoneIsALostGpu) {
  server_.kill_hard();
  wait_for_fresh_figures();
  nvmlMemory_t memory;
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device_, &memory), NVML_ERROR_GPU_IS_LOST);
  nvmlUtilization_t utilization;
  EXPECT_EQ(NVML(nvmlDeviceGetUtilizationRates)(device_, &utilization), NVML_ERROR_GPU_IS_LOST);
  char text[96];
  EXPECT_EQ(NVML(nvmlDeviceGetName)(device_, text, sizeof(text)), NVML_SUCCESS);  // still known
  EXPECT_EQ(NVML(nvmlInit_v2)(), NVML_ERROR_DRIVER_NOT_LOADED);
  server_.start();
  wait_for_fresh_figures();
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device_, &memory), NVML_SUCCESS);  // the same handle
}

TEST_F(NvmlTest, GoesOnInTheChildOfAFork) {
  const pid_t child = ::fork();
  if (child == 0) {
    nvmlMemory_t memory;
    ::_exit(NVML(nvmlDeviceGetMemoryInfo)(device_, &memory) == NVML_SUCCESS ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace vgpu::testing
