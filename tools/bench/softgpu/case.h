// One computation done twice: by a CUDA kernel on the software GPU, and by plain C++.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_SOFTGPU_CASE_H_
#define VGPU_TOOLS_BENCH_SOFTGPU_CASE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vgpu::bench {

// `ours` and `cpp` compute the same from the same input and may be repeated; both return when the
// result is there. `check` compares the two results and says what is wrong, or "".
struct Case {
  std::string name;
  double aim = 0;  // the least C++ time / our time that we want
  std::function<void()> ours, cpp;
  std::function<std::string()> check;
};

// `scale` divides the sizes: 1 = full.
using Cases = std::vector<Case>;
void add_stream_cases(Cases* cases, size_t scale);
void add_block_cases(Cases* cases, size_t scale);
void add_compute_cases(Cases* cases, size_t scale);
void add_sparse_cases(Cases* cases, size_t scale);
void add_sort_cases(Cases* cases, size_t scale);

// Median and least time from submission to completion of a warm kernel that does nothing, in
// microseconds.
struct LaunchTime {
  double median_us, least_us;
};
LaunchTime measure_launch(int launches);
// Milliseconds from the first launch of a kernel to its end, in a process that has a context: a
// small kernel, and thrust::sort.
double first_small_kernel_ms();
double first_sort_ms();

// Memory of the device. Throws std::runtime_error when a call or a kernel fails.
void* device_alloc(size_t bytes);
void to_device(void* device, const void* host, size_t bytes);
void from_device(void* host, const void* device, size_t bytes);
void finish_kernels(const char* what);  // waits; throws when a kernel failed

// An array on both sides: `device` is input or our result, `host` the C++ side's.
template <typename T>
struct Array {
  explicit Array(size_t n) : host(n), device(static_cast<T*>(device_alloc(n * sizeof(T)))) {}
  void upload() { to_device(device, host.data(), host.size() * sizeof(T)); }
  std::vector<T> download() const {
    std::vector<T> copy(host.size());
    from_device(copy.data(), device, copy.size() * sizeof(T));
    return copy;
  }
  std::vector<T> host;
  T* device;
};
template <typename T>
using Shared = std::shared_ptr<Array<T>>;
template <typename T>
Shared<T> make_array(size_t n) {
  return std::make_shared<Array<T>>(n);
}
void fill(std::vector<float>* values, unsigned seed, float low, float high);

// "" when all elements agree within `tolerance` relative to the larger of 1 and the C++ value.
template <typename T>
std::string compare(const Array<T>& array, double tolerance) {
  const std::vector<T> got = array.download();
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = static_cast<double>(array.host[i]), have = static_cast<double>(got[i]);
    const double scale = want < 0 ? (want < -1 ? -want : 1) : (want > 1 ? want : 1);
    const double off = have > want ? have - want : want - have;
    if (!(off <= tolerance * scale)) {
      return "element " + std::to_string(i) + " is " + std::to_string(have) + ", not " +
             std::to_string(want);
    }
  }
  return "";
}

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_SOFTGPU_CASE_H_
