// Function calls that are not inlined: recursion, function pointers, virtual functions, alloca, and
// what happens when the stack ends.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

struct Pair {
  int a;
  double b;
  char c[5];
};

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }

__device__ __noinline__ Pair twist(Pair p, int by, const int* table) {
  int local[4];
  for (int i = 0; i < 4; ++i) local[i] = table[(p.a + i) & 7] + by;
  p.a = local[by & 3];
  p.b = p.b * 2 + local[1];
  p.c[by % 5] += 1;
  return p;
}

__device__ int plus_one(int x) { return x + 1; }
__device__ int times_three(int x) { return x * 3; }
__device__ int negated(int x) { return -x; }
__device__ int nested(int x);
using Function = int (*)(int);
__device__ Function table[4] = {plus_one, times_three, negated, nested};
__constant__ Function constants[2] = {negated, times_three};
__device__ int nested(int x) { return x > 40 ? table[x % 3](x) : x + fibonacci(x & 7); }

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual int corners(int scale) const { return scale; }
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
  __device__ int corners(int scale) const override { return 4 * scale; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float area() const override { return 3 * radius * radius; }
};

__global__ void recursion(int* out) {
  const int t = threadIdx.x;
  out[t] = fibonacci(t % 12) + 1000 * even(t) + 10000 * ackermann(t % 3, t % 4);
}

__global__ void structures(int* out, const int* numbers) {
  const int t = threadIdx.x;
  Pair p{t, t * 0.5, {1, 2, 3, 4, 5}};
  for (int i = 0; i < 1 + t % 3; ++i) p = twist(p, i + t, numbers);
  out[t] = p.a + static_cast<int>(p.b) * 10 + p.c[0] * 1000 + p.c[3] * 7000;
}

__global__ void pointers(int* out, int rounds) {
  const int t = threadIdx.x;
  int x = t;
  for (int i = 0; i < rounds; ++i) {
    x = table[(t + i) % 4](x) + constants[i & 1](i);
    __syncwarp();
    if ((x & 64) != 0) x = __shfl_xor_sync(__activemask(), x, 0) - 50;
  }
  out[t] = x;
}

__global__ void virtuals(float* area, int* corners) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  Shape* shape;
  if (t % 2 != 0)
    shape = new Square(static_cast<float>(t));
  else
    shape = new Circle(static_cast<float>(t));
  __syncthreads();
  area[t] = shape->area();
  corners[t] = shape->corners(t);
  delete shape;
}

__global__ void barrier_inside(int* out);
__device__ __noinline__ int meet(int x, int depth) {
  __shared__ int box[64];
  if (depth > 0) return meet(x + 1, depth - 1) * 2;
  box[threadIdx.x] = x;
  __syncthreads();
  const int other = box[threadIdx.x ^ 1];
  __syncthreads();
  return other;
}
__global__ void barrier_inside(int* out) {
  const int t = threadIdx.x;
  out[t] = t % 2 != 0 ? meet(t, 3) : meet(t * 10, 1);
}

__device__ __noinline__ int bottomless(int n, volatile int* stop) {
  return *stop != 0 ? n : bottomless(n + 1, stop) + n;
}
__global__ void overflow(int* out, int* stop) { out[threadIdx.x] = bottomless(threadIdx.x, stop); }

namespace {

int host_fibonacci(int n) { return n < 2 ? n : host_fibonacci(n - 1) + host_fibonacci(n - 2); }
int host_ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return n == 0 ? host_ackermann(m - 1, 1) : host_ackermann(m - 1, host_ackermann(m, n - 1));
}
int host_call(int which, int x) {
  if (which == 0) return x + 1;
  if (which == 1) return x * 3;
  if (which == 2) return -x;
  return x > 40 ? host_call(x % 3, x) : x + host_fibonacci(x & 7);
}

bool report(const char* name, unsigned wrong) {
  std::printf("%s: %u wrong\n", name, wrong);
  return wrong == 0;
}

int host[256];
void fetch(const int* out) { CHECKED(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost)); }

bool check_recursion(int* out) {
  recursion<<<1, 64>>>(out);
  fetch(out);
  unsigned wrong = 0;
  for (int t = 0; t < 64; ++t) {
    wrong += host[t] !=
             host_fibonacci(t % 12) + 1000 * (t % 2 == 0) + 10000 * host_ackermann(t % 3, t % 4);
  }
  return report("recursion", wrong);
}

bool check_structures(int* out) {
  int numbers[8] = {3, 1, 4, 1, 5, 9, 2, 6};
  CHECKED(cudaMemcpy(out + 256, numbers, sizeof numbers, cudaMemcpyHostToDevice));
  structures<<<1, 96>>>(out, out + 256);
  fetch(out);
  unsigned wrong = 0;
  for (int t = 0; t < 96; ++t) {
    int a = t, c[5] = {1, 2, 3, 4, 5};
    double b = t * 0.5;
    for (int i = 0; i < 1 + t % 3; ++i) {
      const int by = i + t, before = a;
      a = numbers[(before + (by & 3)) & 7] + by;
      b = b * 2 + numbers[(before + 1) & 7] + by;
      ++c[by % 5];
    }
    wrong += host[t] != a + static_cast<int>(b) * 10 + c[0] * 1000 + c[3] * 7000;
  }
  return report("structures", wrong);
}

bool check_pointers(int* out) {
  pointers<<<1, 64>>>(out, 9);
  fetch(out);
  unsigned wrong = 0;
  for (int t = 0; t < 64; ++t) {
    int x = t;
    for (int i = 0; i < 9; ++i) {
      x = host_call((t + i) % 4, x) + ((i & 1) != 0 ? i * 3 : -i);
      if ((x & 64) != 0) x -= 50;
    }
    wrong += host[t] != x;
  }
  return report("pointers", wrong);
}

bool check_virtuals(int* out) {
  virtuals<<<2, 64>>>(reinterpret_cast<float*>(out), out + 128);
  fetch(out);
  unsigned wrong = 0;
  for (int t = 0; t < 128; ++t) {
    float area;
    std::memcpy(&area, &host[t], sizeof area);
    const float side = static_cast<float>(t);
    wrong += area != (t % 2 != 0 ? side * side : 3 * side * side);
    wrong += host[128 + t] != (t % 2 != 0 ? 4 * t : t);
  }
  return report("virtuals", wrong);
}

bool check_barrier(int* out) {
  barrier_inside<<<1, 64>>>(out);
  fetch(out);
  unsigned wrong = 0;
  for (int t = 0; t < 64; ++t)
    wrong += host[t] != (t % 2 != 0 ? ((t - 1) * 10 + 1) * 8 : (t + 1 + 3) * 2);
  return report("barrier inside", wrong);
}

bool check_overflow(int* out) {
  CHECKED(cudaMemset(out, 0, sizeof(int)));
  overflow<<<1, 32>>>(out + 1, out);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("overflow: %s\n", cudaGetErrorName(error));
  return error == cudaErrorHardwareStackError;
}

}  // namespace

int main() {
  int* out;
  CHECKED(cudaMalloc(&out, 4096));
  CHECKED(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  bool good = check_recursion(out);
  good &= check_structures(out);
  good &= check_pointers(out);
  good &= check_virtuals(out);
  good &= check_barrier(out);
  good &= check_overflow(out);
  return app::finish("calls", good);
}
