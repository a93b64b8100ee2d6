// Sorting by the libraries that come with the toolkit, on the device.
// SPDX-License-Identifier: Apache-2.0
#include <thrust/device_ptr.h>
#include <thrust/sort.h>

#include <algorithm>
#include <chrono>
#include <cub/cub.cuh>
#include <stdexcept>

#include "tools/bench/softgpu/case.h"

namespace vgpu::bench {

// The C++ side is std::sort on one thread.
void add_sort_cases(Cases* cases, size_t scale) {
  const size_t n = (16u << 20) / scale;
  auto in = make_array<unsigned>(n), out = make_array<unsigned>(n);
  for (size_t i = 0; i < n; ++i)
    in->host[i] = static_cast<unsigned>((i + 1) * 0x9e3779b97f4a7c15ull >> 29);
  in->upload();
  size_t bytes = 0;
  cub::DeviceRadixSort::SortKeys(nullptr, bytes, in->device, out->device, static_cast<int>(n));
  void* const scratch = device_alloc(bytes);
  cases->push_back({"CUB radix sort", 1,
                    [=] {
                      size_t room = bytes;
                      const cudaError_t sorted = cub::DeviceRadixSort::SortKeys(
                          scratch, room, in->device, out->device, static_cast<int>(n));
                      if (sorted != cudaSuccess)
                        throw std::runtime_error(cudaGetErrorString(sorted));
                      finish_kernels("cub::DeviceRadixSort");
                    },
                    [=] {
                      out->host = in->host;
                      std::sort(out->host.begin(), out->host.end());
                    },
                    [=] { return compare(*out, 0); }});
}

double first_sort_ms() {
  constexpr size_t kKeys = 1 << 16;
  Array<unsigned> keys(kKeys);
  for (size_t i = 0; i < kKeys; ++i) keys.host[i] = static_cast<unsigned>(i * 2654435761u);
  keys.upload();
  finish_kernels("upload");
  const auto began = std::chrono::steady_clock::now();
  const auto first = thrust::device_pointer_cast(keys.device);
  thrust::sort(first, first + kKeys);
  finish_kernels("thrust::sort");
  const double took =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  std::sort(keys.host.begin(), keys.host.end());
  if (!compare(keys, 0).empty()) throw std::runtime_error("thrust::sort: not sorted");
  return took;
}

}  // namespace vgpu::bench
