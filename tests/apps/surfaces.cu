// Surface objects: loads and stores of every width, what happens outside, a surface beside a
// texture. SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

// Moves each texel one to the right, wrapping around, from one surface to another.
template <typename T>
__global__ void rotate(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width || y >= height) return;
  const T value = surf2Dread<T>(from, x * sizeof(T), y);
  surf2Dwrite(value, to, ((x + 1) % width) * sizeof(T), y);
}

cudaSurfaceObject_t make_surface(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  CHECKED(cudaCreateSurfaceObject(&surface, &resource));
  return surface;
}

std::vector<unsigned char> random_bytes(size_t count, uint64_t seed) {
  std::vector<unsigned char> bytes(count);
  app::Random random(seed);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next());
  return bytes;
}

template <typename T>
bool planes(const cudaChannelFormatDesc& format, uint64_t seed) {
  constexpr int kWidth = 45, kHeight = 9;
  cudaArray_t one = nullptr, two = nullptr;
  CHECKED(cudaMallocArray(&one, &format, kWidth, kHeight, cudaArraySurfaceLoadStore));
  CHECKED(cudaMallocArray(&two, &format, kWidth, kHeight, cudaArraySurfaceLoadStore));
  const size_t row = kWidth * sizeof(T);
  const auto in = random_bytes(row * kHeight, seed);
  std::vector<unsigned char> out(in.size());
  CHECKED(cudaMemcpy2DToArray(one, 0, 0, in.data(), row, row, kHeight, cudaMemcpyHostToDevice));
  const cudaSurfaceObject_t from = make_surface(one), to = make_surface(two);
  rotate<T><<<dim3(2, kHeight), 32>>>(from, to, kWidth, kHeight);
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy2DFromArray(out.data(), row, two, 0, 0, row, kHeight, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      good = good && std::memcmp(&out[y * row + ((x + 1) % kWidth) * sizeof(T)],
                                 &in[y * row + x * sizeof(T)], sizeof(T)) == 0;
    }
  }
  CHECKED(cudaDestroySurfaceObject(from));
  CHECKED(cudaDestroySurfaceObject(to));
  CHECKED(cudaFreeArray(one));
  CHECKED(cudaFreeArray(two));
  return good;
}

__global__ void outside(cudaSurfaceObject_t s, float* out, int n) {
  const int x = static_cast<int>(threadIdx.x) - 4;  // 0 .. n - 1 are inside
  out[threadIdx.x] = surf1Dread<float>(s, x * 4, cudaBoundaryModeZero);
  out[threadIdx.x + 32] = surf1Dread<float>(s, x * 4, cudaBoundaryModeClamp);
  if (x < 0 || x >= n) surf1Dwrite(99.0f, s, x * 4, cudaBoundaryModeZero);
}

bool modes() {
  constexpr int kCount = 24;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECKED(cudaMallocArray(&array, &format, kCount, 0, cudaArraySurfaceLoadStore));
  std::vector<float> in(kCount), again(kCount), out(64);
  for (int i = 0; i < kCount; ++i) in[i] = 1.0f + i;
  CHECKED(cudaMemcpy2DToArray(array, 0, 0, in.data(), 4 * kCount, 4 * kCount, 1,
                              cudaMemcpyHostToDevice));
  float* device = nullptr;
  CHECKED(cudaMalloc(&device, 64 * sizeof(float)));
  const cudaSurfaceObject_t surface = make_surface(array);
  outside<<<1, 32>>>(surface, device, kCount);
  CHECKED(cudaMemcpy(out.data(), device, 64 * sizeof(float), cudaMemcpyDeviceToHost));
  CHECKED(cudaMemcpy2DFromArray(again.data(), 4 * kCount, array, 0, 0, 4 * kCount, 1,
                                cudaMemcpyDeviceToHost));
  bool good = again == in;
  for (int i = 0; i < 32; ++i) {
    const int x = i - 4;
    good = good && out[i] == (x < 0 || x >= kCount ? 0 : in[x]);
    good = good && out[i + 32] == in[x < 0 ? 0 : x >= kCount ? kCount - 1 : x];
  }
  CHECKED(cudaDestroySurfaceObject(surface));
  CHECKED(cudaFree(device));
  CHECKED(cudaFreeArray(array));
  std::printf("modes: %s\n", good ? "ok" : "wrong");
  return good;
}

__global__ void fill(cudaSurfaceObject_t solid, cudaSurfaceObject_t layered) {
  const int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  surf3Dwrite(make_int2(x + 10 * y, z), solid, x * 8, y, z);
  surf2DLayeredwrite(static_cast<short>(100 * z + 10 * y + x), layered, x * 2, y, z);
}

__global__ void read_back(cudaTextureObject_t solid, cudaSurfaceObject_t layered, int* out) {
  const int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  const int2 a = tex3D<int2>(solid, x + 0.5f, y + 0.5f, z + 0.5f);
  const short b = surf2DLayeredread<short>(layered, x * 2, y, z);
  out[(z * 6 + y) * 8 + x] = a.x + 1000 * a.y + 100000 * b;
}

bool depths() {
  const cudaChannelFormatDesc pairs = cudaCreateChannelDesc<int2>();
  const cudaChannelFormatDesc shorts = cudaCreateChannelDesc<short>();
  cudaArray_t solid = nullptr, layered = nullptr;
  CHECKED(cudaMalloc3DArray(&solid, &pairs, make_cudaExtent(8, 6, 4), cudaArraySurfaceLoadStore));
  CHECKED(cudaMalloc3DArray(&layered, &shorts, make_cudaExtent(8, 6, 4),
                            cudaArraySurfaceLoadStore | cudaArrayLayered));
  const cudaSurfaceObject_t one = make_surface(solid), two = make_surface(layered);
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = solid;
  cudaTextureObject_t texture = 0;
  const cudaTextureDesc how = {};
  CHECKED(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  int* device = nullptr;
  CHECKED(cudaMalloc(&device, 192 * sizeof(int)));
  fill<<<4, dim3(8, 6)>>>(one, two);
  read_back<<<4, dim3(8, 6)>>>(texture, two, device);
  std::vector<int> out(192);
  CHECKED(cudaMemcpy(out.data(), device, 192 * sizeof(int), cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < 192; ++i) {
    const int x = i % 8, y = i / 8 % 6, z = i / 48;
    good = good && out[i] == x + 10 * y + 1000 * z + 100000 * (100 * z + 10 * y + x);
  }
  CHECKED(cudaDestroyTextureObject(texture));
  CHECKED(cudaDestroySurfaceObject(one));
  CHECKED(cudaDestroySurfaceObject(two));
  CHECKED(cudaFree(device));
  CHECKED(cudaFreeArray(solid));
  CHECKED(cudaFreeArray(layered));
  std::printf("depths: %s\n", good ? "ok" : "wrong");
  return good;
}

__global__ void beyond(cudaSurfaceObject_t s) { surf1Dwrite(1.0f, s, 4 * 1000); }

// The default mode ends the kernel. Last of all: the context is broken then.
bool trap() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECKED(cudaMallocArray(&array, &format, 16, 0, cudaArraySurfaceLoadStore));
  beyond<<<1, 1>>>(make_surface(array));
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("trap: %s\n", cudaGetErrorName(error));
  return error == cudaErrorLaunchFailure;
}

int main() {
  bool good = planes<unsigned char>(cudaCreateChannelDesc<unsigned char>(), 1);
  good = planes<short2>(cudaCreateChannelDesc<short2>(), 2) && good;
  good = planes<uchar4>(cudaCreateChannelDesc<uchar4>(), 3) && good;
  good = planes<float2>(cudaCreateChannelDesc<float2>(), 4) && good;
  good = planes<ushort4>(cudaCreateChannelDesc<ushort4>(), 5) && good;
  good = planes<int4>(cudaCreateChannelDesc<int4>(), 6) && good;
  std::printf("planes: %s\n", good ? "ok" : "wrong");
  good = modes() && good;
  good = depths() && good;
  good = trap() && good;
  return app::finish("surfaces", good);
}
