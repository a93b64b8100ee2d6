// What any CUDA runtime must be able to do on our driver: start, allocate, copy, launch, wait, fail
// in order.
// usage: runtime_contract PATH-OF-LIBCUDART
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/versions/registered_code.h"
#include "tests/versions/runtime_api.h"

namespace vgpu_versions {
namespace {

constexpr uint32_t kCount = 10007;
constexpr uint32_t kBlock = 128;
constexpr size_t kBytes = kCount * sizeof(float);
const dim3 kGrid((kCount + kBlock - 1) / kBlock);

RuntimeApi api;
int wrong = 0;

void expect(bool good, const char* what, int line) {
  if (good) return;
  ++wrong;
  std::printf("line %d: %s\n", line, what);
}

// A call that must succeed; the program ends where one does not, because the rest builds on it.
void checked(cudaError_t error, const char* what, int line) {
  if (error == cudaSuccess) return;
  std::printf("line %d: %s: %s (%d)\n", line, what, api.error_name(error), error);
  std::exit(1);
}

// A call that must fail with this error.
void fails(cudaError_t error, cudaError_t wanted, const char* what, int line) {
  if (error == wanted) return;
  ++wrong;
  std::printf("line %d: %s: %s instead of %s\n", line, what, api.error_name(error),
              api.error_name(wanted));
}

#define FAILS(call, wanted) fails((call), (wanted), #call, __LINE__)
#define EXPECT(condition) expect((condition), #condition, __LINE__)
#define CHECKED(call) checked((call), #call, __LINE__)

void* allocate(size_t bytes) {
  void* memory = nullptr;
  CHECKED(api.allocate(&memory, bytes));
  return memory;
}

void test_device() {
  int runtime = 0, driver = 0, count = 0, major = 0, minor = 0;
  CHECKED(api.runtime_version(&runtime));
  CHECKED(api.driver_version(&driver));
  CHECKED(api.device_count(&count));
  CHECKED(api.device_attribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECKED(api.device_attribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  std::printf("runtime %d, driver %d, devices %d, capability %d.%d\n", runtime, driver, count,
              major, minor);
  EXPECT(count >= 1 && major >= 5);
  CHECKED(api.set_device(0));
  size_t free_bytes = 0, total_bytes = 0;
  CHECKED(api.memory_info(&free_bytes, &total_bytes));
  EXPECT(free_bytes > 0 && free_bytes <= total_bytes);
}

void launch_scale(float* data, float factor, cudaStream_t stream) {
  uint32_t n = kCount;
  void* arguments[] = {&data, &factor, &n};
  CHECKED(api.launch(&scale_stub, kGrid, dim3(kBlock), arguments, 0, stream));
  CHECKED(api.last_error());
}

void test_launch() {
  auto* data = static_cast<float*>(allocate(kBytes));
  std::vector<float> in(kCount), out(kCount);
  for (uint32_t i = 0; i < kCount; ++i) in[i] = static_cast<float>(i % 977);
  CHECKED(api.copy(data, in.data(), kBytes, cudaMemcpyHostToDevice));
  launch_scale(data, 2.0f, nullptr);  // bias is 0.5 at first
  CHECKED(api.synchronize());
  CHECKED(api.copy(out.data(), data, kBytes, cudaMemcpyDeviceToHost));
  int bad = 0;
  for (uint32_t i = 0; i < kCount; ++i) bad += out[i] != in[i] * 2.5f;
  EXPECT(bad == 0);
  CHECKED(api.free(data));
}

void test_symbol() {
  float bias = 0;
  CHECKED(api.copy_from_symbol(&bias, &bias_shadow, sizeof bias, 0, cudaMemcpyDeviceToHost));
  EXPECT(bias == 0.5f);
  bias = 1.0f;
  CHECKED(api.copy_to_symbol(&bias_shadow, &bias, sizeof bias, 0, cudaMemcpyHostToDevice));
  auto* data = static_cast<float*>(allocate(kBytes));
  std::vector<float> values(kCount, 3.0f);
  CHECKED(api.copy(data, values.data(), kBytes, cudaMemcpyDefault));
  launch_scale(data, 1.0f, nullptr);
  CHECKED(api.copy(values.data(), data, kBytes, cudaMemcpyDefault));
  EXPECT(values.front() == 6.0f && values.back() == 6.0f);
  CHECKED(api.free(data));
}

void test_streams() {
  cudaStream_t first, second;
  cudaEvent_t begin, end;
  void* pinned = nullptr;
  CHECKED(api.stream_create(&first));
  CHECKED(api.stream_create(&second));
  CHECKED(api.event_create(&begin));
  CHECKED(api.event_create(&end));
  CHECKED(api.host_allocate(&pinned, kBytes, 0));
  auto* values = static_cast<float*>(pinned);
  for (uint32_t i = 0; i < kCount; ++i) values[i] = 1.0f;
  auto* data = static_cast<float*>(allocate(kBytes));
  CHECKED(api.event_record(begin, first));
  CHECKED(api.copy_async(data, values, kBytes, cudaMemcpyHostToDevice, first));
  launch_scale(data, 3.0f, first);  // bias is 1 by now
  CHECKED(api.event_record(end, first));
  CHECKED(api.stream_wait_event(second, end, 0));
  CHECKED(api.copy_async(values, data, kBytes, cudaMemcpyDeviceToHost, second));
  CHECKED(api.stream_synchronize(second));
  CHECKED(api.event_synchronize(end));
  EXPECT(values[0] == 4.0f && values[kCount - 1] == 4.0f);
  EXPECT(api.stream_query(first) == cudaSuccess);
  float milliseconds = -1;
  CHECKED(api.event_elapsed(&milliseconds, begin, end));
  EXPECT(milliseconds >= 0 && std::isfinite(milliseconds));
  CHECKED(api.free(data));
  CHECKED(api.host_free(pinned));
  CHECKED(api.event_destroy(begin));
  CHECKED(api.event_destroy(end));
  CHECKED(api.stream_destroy(first));
  CHECKED(api.stream_destroy(second));
}

// The per-thread default stream, in a second thread.
void test_thread() {
  CHECKED(api.set_device(0));
  auto* out = static_cast<uint32_t*>(allocate(kBytes));
  CHECKED(api.set(out, 1, kBytes));
  CHECKED(api.synchronize());
  uint32_t n = kCount;
  void* arguments[] = {&out, &n};
  CHECKED(api.launch_per_thread(&offset_stub, kGrid, dim3(kBlock), arguments, 0, nullptr));
  std::vector<uint32_t> values(kCount);
  CHECKED(api.copy_per_thread(values.data(), out, kBytes, cudaMemcpyDeviceToHost));
  int bad = 0;
  for (uint32_t i = 0; i < kCount; ++i) bad += values[i] != 0x01010101u + i;
  EXPECT(bad == 0);
  CHECKED(api.free(out));
}

// Longer than any version's cudaFuncAttributes, whose first fields never moved.
struct Attributes {
  size_t shared_bytes, constant_bytes, local_bytes;
  int threads_max, registers, ptx_version, binary_version;
  char more[1024];
};

void test_function() {
  Attributes attributes = {};
  CHECKED(api.function_attributes(&attributes, &scale_stub));
  EXPECT(attributes.threads_max >= static_cast<int>(kBlock));
  EXPECT(attributes.ptx_version == 52 && attributes.shared_bytes == 0);
  int blocks = 0;
  CHECKED(api.max_active_blocks(&blocks, &scale_stub, kBlock, 0, 0));
  EXPECT(blocks >= 1);
}

void test_errors() {
  float* data = nullptr;
  float factor = 1;
  uint32_t n = 0;
  void* arguments[] = {&data, &factor, &n};
  // Runtimes before 13 check the block themselves; later ones pass on what the driver says.
  const cudaError_t too_big = api.launch(&scale_stub, dim3(1), dim3(5000), arguments, 0, nullptr);
  EXPECT(too_big == cudaErrorInvalidConfiguration || too_big == cudaErrorInvalidValue);
  FAILS(api.last_error(), too_big);
  FAILS(api.last_error(), cudaSuccess);
  void* memory = nullptr;
  FAILS(api.allocate(&memory, size_t{1} << 50), cudaErrorMemoryAllocation);
  FAILS(api.last_error(), cudaErrorMemoryAllocation);
  FAILS(api.free(reinterpret_cast<void*>(16)), cudaErrorInvalidValue);
  api.last_error();
}

}  // namespace

int run(const char* path) {
  api = open_runtime(path);
  const RegisteredCode code(api);
  test_device();
  test_launch();
  test_symbol();
  test_streams();
  std::thread(test_thread).join();
  test_function();
  test_errors();
  CHECKED(api.device_reset());
  test_launch();  // the module is loaded anew, with its first bias
  std::printf("runtime_contract: %s\n", wrong == 0 ? "ok" : "WRONG");
  return wrong == 0 ? 0 : 1;
}

}  // namespace vgpu_versions

int main(int argc, char** argv) {
  if (argc != 2) {
    std::printf("usage: runtime_contract PATH-OF-LIBCUDART\n");
    return 2;
  }
  return vgpu_versions::run(argv[1]);
}
