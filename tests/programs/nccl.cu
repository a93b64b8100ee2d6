// NCCL with one rank: a communicator of its own, collectives that have nobody else to talk to.
// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;

constexpr size_t kCount = 100000;

bool good(ncclResult_t result) {
  if (result != ncclSuccess)
    std::printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  return result == ncclSuccess;
}

template <typename T>
std::vector<T> numbers(uint64_t seed) {
  app::Random random(seed);
  std::vector<T> values(kCount);
  for (T& value : values) value = static_cast<T>(random.next() % 1000);
  return values;
}

// One rank's result is its own input.
template <typename T, typename F>
bool gives_back(const char* what, F collective) {
  const std::vector<T> values = numbers<T>(7);
  Array<T> from(values), to(kCount);
  CHECKED(cudaMemset(to.get(), 0xff, kCount * sizeof(T)));
  const bool done = good(collective(from.get(), to.get()));
  CHECKED(cudaDeviceSynchronize());
  return report(what, done && to.read() == values);
}

bool collectives(ncclComm_t comm, cudaStream_t stream) {
  bool all = gives_back<float>("allReduce, sum", [&](float* from, float* to) {
    return ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, comm, stream);
  });
  all &= gives_back<int>("allReduce, max", [&](int* from, int* to) {
    return ncclAllReduce(from, to, kCount, ncclInt, ncclMax, comm, stream);
  });
  all &= gives_back<double>("broadcast", [&](double* from, double* to) {
    return ncclBroadcast(from, to, kCount, ncclDouble, 0, comm, stream);
  });
  all &= gives_back<float>("reduce", [&](float* from, float* to) {
    return ncclReduce(from, to, kCount, ncclFloat, ncclProd, 0, comm, stream);
  });
  all &= gives_back<int>("allGather", [&](int* from, int* to) {
    return ncclAllGather(from, to, kCount, ncclInt, comm, stream);
  });
  all &= gives_back<float>("reduceScatter", [&](float* from, float* to) {
    return ncclReduceScatter(from, to, kCount, ncclFloat, ncclSum, comm, stream);
  });
  return all;
}

// A product by a factor that the operation brings along runs a kernel even for one rank.
bool scaled(ncclComm_t comm, cudaStream_t stream) {
  const std::vector<float> values = numbers<float>(11);
  Array<float> from(values), to(kCount);
  float factor = 0.5F;
  ncclRedOp_t operation;
  bool done =
      good(ncclRedOpCreatePreMulSum(&operation, &factor, ncclFloat, ncclScalarHostImmediate, comm));
  done &= good(ncclAllReduce(from.get(), to.get(), kCount, ncclFloat, operation, comm, stream));
  CHECKED(cudaDeviceSynchronize());
  done &= good(ncclRedOpDestroy(operation, comm));
  std::vector<float> want = values;
  for (float& value : want) value *= factor;
  return report("allReduce, scaled", done && to.read() == want);
}

}  // namespace

int main() {
  ncclComm_t comm = nullptr;
  const int device = 0;
  int ranks = 0, rank = -1, on = -1;
  bool all = good(ncclCommInitAll(&comm, 1, &device)) && good(ncclCommCount(comm, &ranks)) &&
             good(ncclCommUserRank(comm, &rank)) && good(ncclCommCuDevice(comm, &on));
  all = report("communicator", all && ranks == 1 && rank == 0 && on == 0);
  if (!all) return app::finish("nccl", false);
  cudaStream_t stream;
  CHECKED(cudaStreamCreate(&stream));
  all &= collectives(comm, stream);
  all &= scaled(comm, stream);
  CHECKED(cudaStreamDestroy(stream));
  all &= good(ncclCommDestroy(comm));
  return app::finish("nccl", all);
}
