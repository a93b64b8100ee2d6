// Vector addition with managed memory beside the same with copies.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/clock.h"
#include "tools/bench/measure.h"

namespace vgpu::bench {
namespace {

constexpr unsigned kThreads = 256;

// c[i] = a[i] + b[i] for i < n.
constexpr char kAdd[] = R"(.version 7.0
.target sm_52
.address_size 64
.visible .entry add(.param .u64 c, .param .u64 a, .param .u64 b, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [c];
  ld.param.u64 %d2, [a];
  ld.param.u64 %d3, [b];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p, %r2, %r1;
  @%p bra DONE;
  mul.wide.u32 %d4, %r2, 4;
  add.u64 %d1, %d1, %d4;
  add.u64 %d2, %d2, %d4;
  add.u64 %d3, %d3, %d4;
  ld.global.u32 %r3, [%d2];
  ld.global.u32 %r4, [%d3];
  add.u32 %r3, %r3, %r4;
  st.global.u32 [%d1], %r3;
DONE:
  ret;
}
)";

struct Vectors {
  uint32_t *a = nullptr, *b = nullptr, *c = nullptr;  // as the host has them
  CUdeviceptr device_a = 0, device_b = 0, device_c = 0;
};

class Addition {
 public:
  Addition(Driver* driver, uint32_t words) : driver_(driver), words_(words) {
    CUmodule module = nullptr;
    driver->check(driver->cuModuleLoadData(&module, kAdd), "cuModuleLoadData");
    driver->check(driver->cuModuleGetFunction(&add_, module, "add"), "cuModuleGetFunction");
  }

  // From numbers of the host's to their sums on the host, `copies` in between or not. Wall time.
  double run(const Vectors& vectors, bool copies, uint32_t seed) const {
    const size_t bytes = size_t{words_} * sizeof(uint32_t);
    const uint64_t began = monotonic_ns();
    std::iota(vectors.a, vectors.a + words_, seed);
    std::iota(vectors.b, vectors.b + words_, 2 * seed);
    if (copies) {
      driver_->check(driver_->cuMemcpyHtoD(vectors.device_a, vectors.a, bytes), "cuMemcpyHtoD");
      driver_->check(driver_->cuMemcpyHtoD(vectors.device_b, vectors.b, bytes), "cuMemcpyHtoD");
    }
    Vectors args = vectors;
    uint32_t words = words_;
    void* params[] = {&args.device_c, &args.device_a, &args.device_b, &words};
    driver_->check(driver_->cuLaunchKernel(add_, (words_ + kThreads - 1) / kThreads, 1, 1, kThreads,
                                           1, 1, 0, nullptr, params, nullptr),
                   "cuLaunchKernel");
    if (copies) {
      driver_->check(driver_->cuMemcpyDtoH(vectors.c, vectors.device_c, bytes), "cuMemcpyDtoH");
    } else {
      driver_->check(driver_->cuCtxSynchronize(), "cuCtxSynchronize");
    }
    for (uint32_t i = 0; i < words_; ++i)
      if (vectors.c[i] != 3 * seed + 2 * i) driver_->check(CUDA_ERROR_UNKNOWN, "a wrong sum");
    return static_cast<double>(monotonic_ns() - began);
  }

 private:
  Driver* const driver_;
  const uint32_t words_;
  CUfunction add_ = nullptr;
};

double median(std::vector<double>* times) {
  std::nth_element(times->begin(), times->begin() + times->size() / 2, times->end());
  return (*times)[times->size() / 2];
}

}  // namespace

void measure_managed(Driver* driver, int repetitions, size_t bytes) {
  CUresult (*managed_alloc)(CUdeviceptr*, size_t, unsigned) = nullptr;
  if (!Driver::find(driver->library, "cuMemAllocManaged", &managed_alloc)) std::exit(1);
  const auto words = static_cast<uint32_t>(bytes / sizeof(uint32_t));
  const Addition addition(driver, words);
  std::vector<uint32_t> host(size_t{3} * words);
  Vectors copied{host.data(), host.data() + words, host.data() + size_t{2} * words}, managed;
  for (CUdeviceptr* each : {&copied.device_a, &copied.device_b, &copied.device_c})
    driver->check(driver->cuMemAlloc(each, bytes), "cuMemAlloc");
  for (CUdeviceptr* each : {&managed.device_a, &managed.device_b, &managed.device_c})
    driver->check(managed_alloc(each, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  managed.a = reinterpret_cast<uint32_t*>(managed.device_a);
  managed.b = reinterpret_cast<uint32_t*>(managed.device_b);
  managed.c = reinterpret_cast<uint32_t*>(managed.device_c);
  std::vector<double> with_copies, without;
  for (int i = -1; i < repetitions; ++i) {  // the first of each warms up
    const double explicit_ns = addition.run(copied, true, static_cast<uint32_t>(i + 2));
    const double managed_ns = addition.run(managed, false, static_cast<uint32_t>(i + 2));
    if (i < 0) continue;
    with_copies.push_back(explicit_ns);
    without.push_back(managed_ns);
  }
  const double explicit_ns = median(&with_copies), managed_ns = median(&without);
  std::printf("{\"add_copied_ns\": %.0f, \"add_managed_ns\": %.0f, \"add_managed_times\": %.3f}\n",
              explicit_ns, managed_ns, managed_ns / explicit_ns);
}

}  // namespace vgpu::bench
