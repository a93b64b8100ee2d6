// A kernel for the image tests; long enough that every compression makes it shorter.
// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void image_test_kernel(float* out, const float* in, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = in[i];
#pragma unroll
  for (int k = 1; k < 24; ++k) {
    float value = in[(i + k * 7) % count];
    sum = value > sum ? sum * value + k : sum - value / (k + 1.5f);
  }
  out[i] = sum;
}
