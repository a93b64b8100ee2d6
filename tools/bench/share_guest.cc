// A guest of vgpu bench sharing: wants device time, and says when it has got it, as JSON.
// SPDX-License-Identifier: Apache-2.0
// usage: vgpu-bench-share calibrate | bulk LOOPS START_NS SECONDS | latency LOOPS START_NS SECONDS
// | idle SECONDS | check | hold MIB
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "tools/bench/driver.h"

namespace {

using vgpu::monotonic_ns;
using vgpu::bench::Driver;

constexpr unsigned kBlocks = 8, kThreads = 32;
constexpr int kInFlight = 256;              // kernels of a bulk guest: it never runs dry
constexpr uint64_t kBucketNs = 50'000'000;  // of what a bulk guest reports
constexpr uint64_t kPeriodNs = 20'000'000;  // of a latency guest
constexpr unsigned kCalibrationLoops = 100'000;
constexpr int kCalibrationKernels = 32;  // one after another, so that no processor sleeps between

// spin(out, loops): takes about as long as `loops` says, and writes a word for each thread.
// add(out, loops): out[i] = i + loops.
constexpr char kCode[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 loops)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [loops];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  mov.u32 %r6, %r5;
again:
  mad.lo.s32 %r6, %r6, 1664525, 1013904223;
  xor.b32 %r6, %r6, %r1;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra again;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
}
.visible .entry add(.param .u64 out, .param .u32 loops)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [loops];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  add.u32 %r6, %r5, %r1;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
}
)";

class Guest {
 public:
  bool open() {
    if (!driver_.load() || !Driver::find(driver_.library, "cuEventCreate", &create_event_) ||
        !Driver::find(driver_.library, "cuEventRecord", &record_) ||
        !Driver::find(driver_.library, "cuEventSynchronize", &wait_event_)) {
      return false;
    }
    check(driver_.cuInit(0), "cuInit");
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    check(driver_.cuDeviceGet(&device, 0), "cuDeviceGet");
    check(driver_.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(driver_.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(driver_.cuModuleLoadData(&module, kCode), "cuModuleLoadData");
    check(driver_.cuModuleGetFunction(&spin_, module, "spin"), "cuModuleGetFunction");
    check(driver_.cuModuleGetFunction(&add_, module, "add"), "cuModuleGetFunction");
    check(driver_.cuMemAlloc(&out_, sizeof(uint32_t) * kBlocks * kThreads), "cuMemAlloc");
    return true;
  }
  void check(CUresult result, const char* what) const { driver_.check(result, what); }
  void launch(CUfunction function, unsigned loops) {
    void* parameters[] = {&out_, &loops};
    check(driver_.cuLaunchKernel(function, kBlocks, 1, 1, kThreads, 1, 1, 0, nullptr, parameters,
                                 nullptr),
          "cuLaunchKernel");
  }
  void spin(unsigned loops) { launch(spin_, loops); }
  void synchronize() { check(driver_.cuCtxSynchronize(), "cuCtxSynchronize"); }

  // Loops of a kernel that takes a millisecond when nobody else is there and others are queued
  // behind it: the best of several.
  void calibrate() {
    spin(kCalibrationLoops);
    synchronize();
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; ++i) {
      const uint64_t began = monotonic_ns();
      for (int kernel = 0; kernel < kCalibrationKernels; ++kernel) spin(kCalibrationLoops);
      synchronize();
      best = std::min(best, (monotonic_ns() - began) / kCalibrationKernels);
    }
    std::printf("{\"loops\": %.0f}\n", 1e6 * kCalibrationLoops / static_cast<double>(best));
  }

  // As many kernels as it can get, never more than kInFlight unfinished: ends by bucket of time.
  void bulk(unsigned loops, uint64_t start, uint64_t seconds) {
    std::vector<uint64_t> buckets(seconds * 1'000'000'000 / kBucketNs);
    CUevent events[kInFlight] = {};
    for (CUevent& event : events) check(create_event_(&event, 2), "cuEventCreate");
    warm(start);
    for (uint64_t i = 0;; ++i) {
      CUevent event = events[i % kInFlight];
      if (i >= kInFlight) {
        check(wait_event_(event), "cuEventSynchronize");
        const uint64_t bucket = (monotonic_ns() - start) / kBucketNs;
        if (bucket >= buckets.size()) break;
        ++buckets[bucket];
      }
      spin(loops);
      check(record_(event, nullptr), "cuEventRecord");
    }
    std::printf("{\"ends\": [");
    for (size_t i = 0; i < buckets.size(); ++i)
      std::printf("%s%llu", i == 0 ? "" : ", ", static_cast<unsigned long long>(buckets[i]));
    std::printf("]}\n");
    std::fflush(stdout);
    _exit(0);  // what is queued is of no interest
  }

  // A kernel every 20 ms: from when it was due to its end.
  void latency(unsigned loops, uint64_t start, uint64_t seconds) {
    std::vector<uint64_t> times;
    warm(start);
    for (uint64_t due = start; due < start + seconds * 1'000'000'000; due += kPeriodNs) {
      rest_until(due);
      spin(loops);
      synchronize();
      times.push_back(monotonic_ns() - due);
    }
    std::sort(times.begin(), times.end());
    const auto at = [&](size_t permille) {
      return static_cast<unsigned long long>(times[(times.size() - 1) * permille / 1000]);
    };
    std::printf("{\"p50_ns\": %llu, \"p99_ns\": %llu, \"max_ns\": %llu}\n", at(500), at(990),
                at(1000));
  }

  void check_sum() {
    constexpr unsigned kPlus = 7;
    uint32_t words[kBlocks * kThreads] = {};
    launch(add_, kPlus);
    check(driver_.cuMemcpyDtoH(words, out_, sizeof(words)), "cuMemcpyDtoH");
    for (uint32_t i = 0; i < kBlocks * kThreads; ++i) {
      if (words[i] == i + kPlus) continue;
      std::fprintf(stderr, "word %u is %u\n", i, words[i]);
      std::exit(1);
    }
    std::printf("{\"right\": 1}\n");
  }

  // Holds memory, and never stops working, until it is killed.
  [[noreturn]] void hold(size_t mib) {
    CUdeviceptr memory = 0;
    check(driver_.cuMemAlloc(&memory, mib << 20), "cuMemAlloc");
    std::printf("{\"holds\": 1}\n");
    std::fflush(stdout);
    for (;;) {
      spin(kCalibrationLoops);
      synchronize();
    }
  }

 private:
  static void rest_until(uint64_t when) {
    const timespec until = {static_cast<time_t>(when / 1'000'000'000),
                            static_cast<long>(when % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) continue;
  }
  // Compiled before the others begin.
  void warm(uint64_t start) {
    spin(1);
    synchronize();
    if (monotonic_ns() > start) std::fprintf(stderr, "late\n");
    rest_until(start);
  }

  Driver driver_;
  CUfunction spin_ = nullptr, add_ = nullptr;
  CUdeviceptr out_ = 0;
  CUresult (*create_event_)(CUevent*, unsigned) = nullptr;
  CUresult (*record_)(CUevent, CUstream) = nullptr;
  CUresult (*wait_event_)(CUevent) = nullptr;
};

uint64_t number(int argc, char** argv, int index) {
  return index < argc ? std::strtoull(argv[index], nullptr, 10) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  Guest guest;
  if (!guest.open()) return 2;
  const uint64_t first = number(argc, argv, 2), second = number(argc, argv, 3),
                 third = number(argc, argv, 4);
  if (std::strcmp(mode, "calibrate") == 0) {
    guest.calibrate();
  } else if (std::strcmp(mode, "bulk") == 0 && third != 0) {
    guest.bulk(static_cast<unsigned>(first), second, third);
  } else if (std::strcmp(mode, "latency") == 0 && third != 0) {
    guest.latency(static_cast<unsigned>(first), second, third);
  } else if (std::strcmp(mode, "idle") == 0) {
    guest.spin(1);
    guest.synchronize();
    std::printf("{\"idle\": 1}\n");
    std::fflush(stdout);
    (void)poll(nullptr, 0, static_cast<int>(first * 1000));
  } else if (std::strcmp(mode, "check") == 0) {
    guest.check_sum();
  } else if (std::strcmp(mode, "hold") == 0 && first != 0) {
    guest.hold(first);
  } else {
    std::fprintf(stderr,
                 "usage: vgpu-bench-share calibrate | bulk LOOPS START_NS SECONDS | latency LOOPS "
                 "START_NS SECONDS | idle SECONDS | check | hold MIB\n");
    return 2;
  }
  return 0;
}
