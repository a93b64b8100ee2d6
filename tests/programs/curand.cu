// cuRAND: each kind of generator gives on the device what it gives on the host; and inside kernels.
// SPDX-License-Identifier: Apache-2.0
#include <curand.h>
#include <curand_kernel.h>

#include <cmath>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;

constexpr size_t kCount = 20000;

struct Kind {
  const char* name;
  curandRngType_t type;
  bool seeded, slow = false;
};
constexpr Kind kKinds[] = {{"XORWOW", CURAND_RNG_PSEUDO_XORWOW, true},
                           {"MRG32k3a", CURAND_RNG_PSEUDO_MRG32K3A, true},
                           {"MTGP32", CURAND_RNG_PSEUDO_MTGP32, true},
                           {"MT19937", CURAND_RNG_PSEUDO_MT19937, true, true},
                           {"Philox", CURAND_RNG_PSEUDO_PHILOX4_32_10, true},
                           {"Sobol32", CURAND_RNG_QUASI_SOBOL32, false},
                           {"scrambled Sobol32", CURAND_RNG_QUASI_SCRAMBLED_SOBOL32, false}};

bool same_as_host(const Kind& kind) {
  Array<float> device(kCount);
  std::vector<float> host(kCount);
  curandGenerator_t here = nullptr, there = nullptr;
  bool good = curandCreateGenerator(&there, kind.type) == CURAND_STATUS_SUCCESS &&
              curandCreateGeneratorHost(&here, kind.type) == CURAND_STATUS_SUCCESS;
  for (curandGenerator_t each : {here, there}) {
    if (kind.seeded) good &= curandSetPseudoRandomGeneratorSeed(each, 1234) == 0;
  }
  good &= curandGenerateUniform(there, device.get(), kCount) == CURAND_STATUS_SUCCESS &&
          curandGenerateUniform(here, host.data(), kCount) == CURAND_STATUS_SUCCESS &&
          device.read() == host;
  good &= curandGenerateNormal(there, device.get(), kCount, 0, 1) == CURAND_STATUS_SUCCESS;
  double squares = 0;
  for (float x : device.read()) squares += static_cast<double>(x) * x;
  good &= std::fabs(squares / kCount - 1) < 0.05;
  good &= curandDestroyGenerator(here) == 0 && curandDestroyGenerator(there) == 0;
  return report(kind.name, good);
}

__global__ void in_a_kernel(float* uniform, float* normal) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  curandState ours;
  curand_init(9, i, 0, &ours);
  uniform[i] = curand_uniform(&ours);
  curandStatePhilox4_32_10_t philox;
  curand_init(7, i, 0, &philox);
  normal[i] = curand_normal4(&philox).x;
}

bool check_kernel() {
  constexpr int kThreads = 2048;
  Array<float> uniform(kThreads), normal(kThreads);
  in_a_kernel<<<kThreads / 128, 128>>>(uniform.get(), normal.get());
  CHECKED(cudaDeviceSynchronize());
  double mean = 0, squares = 0;
  bool inside = true;
  for (float x : uniform.read()) mean += x, inside &= x > 0 && x <= 1;
  for (float x : normal.read()) squares += static_cast<double>(x) * x;
  return report("in a kernel", inside && std::fabs(mean / kThreads - 0.5) < 0.03 &&
                                   std::fabs(squares / kThreads - 1) < 0.15);
}

}  // namespace

// --all: also the generator whose states take a minute to be set apart.
int main(int argc, char** argv) {
  bool good = true;
  for (const Kind& kind : kKinds) {
    if (!kind.slow || app::wants(argc, argv, "--all")) good &= same_as_host(kind);
  }
  good &= check_kernel();
  return app::finish("curand", good);
}
