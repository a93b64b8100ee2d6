// What the applications built on CUB share: device arrays, the two calls of each algorithm.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_APPS_CUB_APP_H_
#define VGPU_TESTS_APPS_CUB_APP_H_

#include <algorithm>
#include <vector>

#include "app.h"

namespace app {

template <typename T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) { CHECKED(cudaMalloc(&data_, count * sizeof(T))); }
  explicit Array(const std::vector<T>& from) : Array(from.size()) {
    CHECKED(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* get() { return data_; }
  std::vector<T> read(size_t count) const {
    std::vector<T> host(count);
    CHECKED(cudaMemcpy(host.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
  std::vector<T> read() const { return read(count_); }
  T first() const { return read(1)[0]; }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// Calls f twice, as CUB wants it: for the size of its scratch memory, and for the work.
template <typename F>
void twice(F f) {
  size_t bytes = 0;
  CHECKED(f(nullptr, bytes));
  Array<char> scratch(std::max<size_t>(bytes, 1));
  CHECKED(f(scratch.get(), bytes));
  CHECKED(cudaDeviceSynchronize());
}

inline bool report(const char* name, bool good) {
  std::printf("%s: %s\n", name, good ? "right" : "wrong");
  return good;
}

// Numbers below `limit`.
inline std::vector<unsigned> numbers(size_t count, unsigned limit, uint64_t seed) {
  Random random(seed);
  std::vector<unsigned> made(count);
  for (unsigned& x : made) x = static_cast<unsigned>((random.next() >> 32) % limit);
  return made;
}

// 16 M elements with --large, else few.
inline size_t elements(int argc, char** argv, size_t few) {
  return wants(argc, argv, "--large") ? size_t{16} << 20 : few;
}

}  // namespace app

#endif  // VGPU_TESTS_APPS_CUB_APP_H_
