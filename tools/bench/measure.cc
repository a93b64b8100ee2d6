// Loops of the bench child.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/measure.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"

namespace vgpu::bench {
namespace {

constexpr int kBatch = 256;  // launches between two looks at the clock
constexpr int kPauseMs = 2;  // long enough that the other side sleeps
constexpr size_t kStackBytes = 1024;
constexpr size_t kBlockBytes = 4096;
constexpr int kBlocks = 1000;
constexpr size_t kFirstBytes = 1 << 20;
constexpr size_t kWarmBytes = 64 << 20;  // more than the staging slabs hold

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

template <typename Body>
double elapsed_ns(const Body& body) {
  const uint64_t began = monotonic_ns();
  body();
  return static_cast<double>(monotonic_ns() - began);
}

// CPU time of this thread per launch, the ring empty at the start of each batch.
double launch_cpu_ns(Driver* driver, int batches) {
  std::vector<double> times;
  for (int batch = 0; batch < batches; ++batch) {
    const uint64_t cpu = thread_cpu_ns();
    for (int i = 0; i < kBatch; ++i) driver->check(driver->launch_empty(), "cuLaunchKernel");
    times.push_back(static_cast<double>(thread_cpu_ns() - cpu) / kBatch);
    driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
  }
  return median(times);
}

double launches_per_s(Driver* driver, int launches) {
  const double ns = elapsed_ns([&] {
    for (int i = 0; i < launches; ++i) driver->check(driver->launch_empty(), "cuLaunchKernel");
    driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
  });
  return launches / (ns / 1e9);
}

// A call that must wait for an answer.
double round_trip_ns(Driver* driver, int repetitions, int pause_ms) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    if (pause_ms != 0) ::poll(nullptr, 0, pause_ms);
    times.push_back(elapsed_ns([&] {
      driver->check(driver->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, kStackBytes), "cuCtxSetLimit");
    }));
  }
  return median(times);
}

void allocation_ns(Driver* driver, int repetitions, double* alloc_ns, double* free_ns) {
  std::vector<CUdeviceptr> blocks(kBlocks);
  std::vector<double> alloc, freed;
  for (int i = 0; i < repetitions; ++i) {
    alloc.push_back(elapsed_ns([&] {
      for (CUdeviceptr& block : blocks) {
        driver->check(driver->cuMemAlloc(&block, kBlockBytes), "cuMemAlloc");
      }
    }));
    freed.push_back(elapsed_ns([&] {
      for (CUdeviceptr block : blocks) driver->check(driver->cuMemFree(block), "cuMemFree");
    }));
  }
  *alloc_ns = median(alloc) / kBlocks;
  *free_ns = median(freed) / kBlocks;
}

}  // namespace

void run_steps(Driver* driver, int steps) {
  std::vector<char> host(1024, 1);
  CUdeviceptr device = 0;
  driver->check(driver->cuMemAlloc(&device, host.size()), "cuMemAlloc");
  for (int i = 0; i < steps; ++i) {
    driver->check(driver->cuMemcpyHtoD(device, host.data(), host.size()), "cuMemcpyHtoD");
    driver->check(driver->launch_empty(), "cuLaunchKernel");
    driver->check(driver->cuMemcpyDtoH(host.data(), device, host.size()), "cuMemcpyDtoH");
  }
  std::printf("{\"steps\": %d}\n", steps);
}

void measure_calls(Driver* driver, int scale) {
  launch_cpu_ns(driver, 10);  // warm: the kernel is compiled, pages are touched
  const double cpu = launch_cpu_ns(driver, 100 * scale);
  const double rate = launches_per_s(driver, 100'000 * scale);
  const double busy = round_trip_ns(driver, 1000 * scale, 0);
  const double idle = round_trip_ns(driver, 30 * scale, kPauseMs);
  double alloc = 0, freed = 0;
  allocation_ns(driver, 5 + 2 * scale, &alloc, &freed);
  std::printf(
      "{\"launch_cpu_ns\": %.2f, \"launch_records_per_s\": %.0f, \"trip_busy_ns\": %.0f, "
      "\"trip_idle_ns\": %.0f, \"alloc_ns\": %.2f, \"free_ns\": %.2f}\n",
      cpu, rate, busy, idle, alloc, freed);
}

namespace {

CUgraphExec make_graph(Driver* driver) {
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = driver->empty;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  driver->check(driver->cuGraphCreate(&graph, 0), "cuGraphCreate");
  for (int i = 0; i < kGraphNodes; ++i) {
    const CUgraphNode before = node;
    driver->check(
        driver->cuGraphAddKernelNode(&node, graph, &before, before == nullptr ? 0 : 1, &kernel),
        "cuGraphAddKernelNode");
  }
  driver->check(driver->cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
  return exec;
}

}  // namespace

void run_graphs(Driver* driver, int launches) {
  const CUgraphExec exec = make_graph(driver);
  for (int i = 0; i < launches; ++i)
    driver->check(driver->cuGraphLaunch(exec, nullptr), "cuGraphLaunch");
  driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
  std::printf("{\"graph_launches\": %d}\n", launches);
}

// CPU time of this thread; the worker is through with what was before.
void measure_graphs(Driver* driver, int scale) {
  const CUgraphExec exec = make_graph(driver);
  std::vector<double> graph, plain, whole;
  for (int i = 0; i < 20 * scale; ++i) {
    uint64_t cpu = thread_cpu_ns();
    whole.push_back(elapsed_ns([&] {
      driver->check(driver->cuGraphLaunch(exec, nullptr), "cuGraphLaunch");
      graph.push_back(static_cast<double>(thread_cpu_ns() - cpu));
      driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    }));
    cpu = thread_cpu_ns();
    for (int j = 0; j < kGraphNodes; ++j) driver->check(driver->launch_empty(), "cuLaunchKernel");
    plain.push_back(static_cast<double>(thread_cpu_ns() - cpu));
    driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
  }
  std::printf("{\"graph_launch_cpu_ns\": %.0f, \"graph_plain_cpu_ns\": %.0f, \"graph_ns\": %.0f}\n",
              median(graph), median(plain), median(whole));
}

void measure_copies(Driver* driver, int repetitions, size_t max_bytes) {
  std::vector<char> from(max_bytes, 1), to(max_bytes, 2);
  CUdeviceptr device = 0;
  driver->check(driver->cuMemAlloc(&device, max_bytes), "cuMemAlloc");
  const double first = elapsed_ns([&] {
    driver->check(driver->cuMemcpyHtoD(device, from.data(), kFirstBytes), "cuMemcpyHtoD");
    driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
  });
  std::printf("{\"first_to_device_bytes_per_s\": %.0f", kFirstBytes * 1e9 / first);
  // Every page that copies pass through is touched from here on.
  for (size_t bytes = 0; bytes < kWarmBytes; bytes += max_bytes) {
    driver->check(driver->cuMemcpyHtoD(device, from.data(), max_bytes), "cuMemcpyHtoD");
    driver->check(driver->cuMemcpyDtoH(to.data(), device, max_bytes), "cuMemcpyDtoH");
  }
  for (size_t bytes = 64 << 10; bytes <= max_bytes; bytes *= 4) {
    std::vector<double> raw, in, out;
    for (int i = 0; i < repetitions; ++i) {
      raw.push_back(elapsed_ns([&] { std::memcpy(to.data(), from.data(), bytes); }));
      in.push_back(elapsed_ns([&] {
        driver->check(driver->cuMemcpyHtoD(device, from.data(), bytes), "cuMemcpyHtoD");
        driver->check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
      }));
      out.push_back(elapsed_ns(
          [&] { driver->check(driver->cuMemcpyDtoH(to.data(), device, bytes), "cuMemcpyDtoH"); }));
    }
    const double per_s = static_cast<double>(bytes) * 1e9;
    std::printf(
        ", \"memcpy_bytes_per_s_%07zu\": %.0f, \"to_device_bytes_per_s_%07zu\": %.0f, "
        "\"from_device_bytes_per_s_%07zu\": %.0f",
        bytes >> 10, per_s / median(raw), bytes >> 10, per_s / median(in), bytes >> 10,
        per_s / median(out));
  }
  std::printf("}\n");
}

}  // namespace vgpu::bench
