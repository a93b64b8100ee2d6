// Pitched memory, boxes and arrays through the runtime: all its copies of two and three dimensions.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

__global__ void increment(unsigned char* data, size_t pitch, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width && y < height) ++data[y * pitch + x];
}

std::vector<unsigned char> random_bytes(size_t count, uint64_t seed) {
  std::vector<unsigned char> bytes(count);
  app::Random random(seed);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next());
  return bytes;
}

bool rows() {
  constexpr int kWidth = 1000, kHeight = 37;
  auto in = random_bytes(kWidth * kHeight, 1);
  std::vector<unsigned char> out(in.size());
  unsigned char* device = nullptr;
  size_t pitch = 0;
  CHECKED(cudaMallocPitch(&device, &pitch, kWidth, kHeight));
  CHECKED(cudaMemset2D(device, pitch, 0x5a, kWidth, kHeight));
  CHECKED(cudaMemcpy2D(device, pitch, in.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice));
  increment<<<dim3((kWidth + 127) / 128, kHeight), 128>>>(device, pitch, kWidth, kHeight);
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy2D(out.data(), kWidth, device, pitch, kWidth, kHeight, cudaMemcpyDefault));
  bool good = pitch >= kWidth;
  for (size_t i = 0; i < in.size(); ++i)
    good = good && out[i] == static_cast<unsigned char>(in[i] + 1);
  cudaStream_t stream;
  CHECKED(cudaStreamCreate(&stream));
  CHECKED(cudaMemset2DAsync(device, pitch, 7, 500, kHeight, stream));
  CHECKED(cudaMemcpy2DAsync(out.data(), kWidth, device, pitch, kWidth, kHeight,
                            cudaMemcpyDeviceToHost, stream));
  CHECKED(cudaStreamSynchronize(stream));
  good = good && out[499] == 7 && out[500] == static_cast<unsigned char>(in[500] + 1);
  good = good && cudaMemcpy2D(out.data(), kWidth - 1, device, pitch, kWidth, kHeight,
                              cudaMemcpyDeviceToHost) == cudaErrorInvalidPitchValue;
  (void)cudaGetLastError();
  CHECKED(cudaStreamDestroy(stream));
  CHECKED(cudaFree(device));
  std::printf("rows: %s, hash %016llx\n", good ? "ok" : "wrong",
              static_cast<unsigned long long>(app::hash(out.data(), out.size())));
  return good;
}

bool boxes() {
  const cudaExtent extent = make_cudaExtent(100, 20, 6);
  auto in = random_bytes(100 * 20 * 6, 2);
  std::vector<unsigned char> out(in.size());
  cudaPitchedPtr device;
  CHECKED(cudaMalloc3D(&device, extent));
  CHECKED(cudaMemset3D(device, 0, extent));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(in.data(), 100, 100, 20);
  copy.dstPtr = device;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CHECKED(cudaMemcpy3D(&copy));
  copy.srcPtr = device;
  copy.dstPtr = make_cudaPitchedPtr(out.data(), 100, 100, 20);
  copy.srcPos = make_cudaPos(10, 2, 1);
  copy.dstPos = make_cudaPos(0, 1, 2);
  copy.extent = make_cudaExtent(50, 10, 3);
  copy.kind = cudaMemcpyDeviceToHost;
  CHECKED(cudaMemcpy3D(&copy));
  bool good = true;
  for (int z = 0; z < 3; ++z) {
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 50; ++x) {
        good = good &&
               out[((z + 2) * 20 + y + 1) * 100 + x] == in[((z + 1) * 20 + y + 2) * 100 + x + 10];
      }
    }
  }
  CHECKED(cudaFree(device.ptr));
  std::printf("boxes: %s\n", good ? "ok" : "wrong");
  return good;
}

bool flat_arrays() {
  constexpr int kWidth = 64, kHeight = 32;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
  cudaArray_t array = nullptr, other = nullptr;
  CHECKED(cudaMallocArray(&array, &format, kWidth, kHeight));
  CHECKED(cudaMallocArray(&other, &format, kWidth, kHeight));
  auto in = random_bytes(kWidth * kHeight * 8, 3);
  std::vector<unsigned char> out(in.size());
  CHECKED(cudaMemcpy2DToArray(array, 0, 0, in.data(), kWidth * 8, kWidth * 8, kHeight,
                              cudaMemcpyHostToDevice));
  CHECKED(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, kWidth * 8, kHeight,
                                   cudaMemcpyDeviceToDevice));
  CHECKED(cudaMemcpy2DFromArray(out.data(), kWidth * 8, other, 0, 0, kWidth * 8, kHeight,
                                cudaMemcpyDeviceToHost));
  bool good = in == out;
  cudaChannelFormatDesc back;
  cudaExtent extent;
  unsigned flags = 9;
  CHECKED(cudaArrayGetInfo(&back, &extent, &flags, array));
  good =
      good && back.x == 32 && back.y == 32 && back.z == 0 && back.f == cudaChannelFormatKindFloat;
  good = good && extent.width == kWidth && extent.height == kHeight && flags == 0;
  good = good && cudaMemcpy2DToArray(array, 8, 0, in.data(), kWidth * 8, kWidth * 8, kHeight,
                                     cudaMemcpyHostToDevice) == cudaErrorInvalidValue;
  (void)cudaGetLastError();
  CHECKED(cudaFreeArray(array));
  CHECKED(cudaFreeArray(other));
  std::printf("flat arrays: %s\n", good ? "ok" : "wrong");
  return good;
}

bool deep_arrays() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array = nullptr;
  CHECKED(cudaMalloc3DArray(&array, &format, make_cudaExtent(20, 10, 4)));
  auto in = random_bytes(20 * 10 * 4 * 4, 4);
  std::vector<unsigned char> out(in.size());
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(in.data(), 80, 20, 10);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(20, 10, 4);  // in texels, since an array takes part
  copy.kind = cudaMemcpyHostToDevice;
  CHECKED(cudaMemcpy3D(&copy));
  cudaMemcpy3DParms back = {};
  back.srcArray = array;
  back.dstPtr = make_cudaPitchedPtr(out.data(), 80, 20, 10);
  back.extent = make_cudaExtent(20, 10, 4);
  back.kind = cudaMemcpyDeviceToHost;
  CHECKED(cudaMemcpy3DAsync(&back, nullptr));
  CHECKED(cudaDeviceSynchronize());
  bool good = in == out;
  cudaMipmappedArray_t mipmapped = nullptr;
  CHECKED(cudaMallocMipmappedArray(&mipmapped, &format, make_cudaExtent(16, 16, 0), 5));
  cudaArray_t level = nullptr;
  cudaExtent extent;
  for (int i = 0; i < 5; ++i) {
    CHECKED(cudaGetMipmappedArrayLevel(&level, mipmapped, i));
    CHECKED(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
    good = good && extent.width == size_t{16} >> i && extent.height == size_t{16} >> i;
  }
  CHECKED(cudaFreeMipmappedArray(mipmapped));
  CHECKED(cudaFreeArray(array));
  std::printf("deep arrays: %s\n", good ? "ok" : "wrong");
  return good;
}

int main() {
  const bool good = rows() & boxes() & flat_arrays() & deep_arrays();
  return app::finish("pitched", good);
}
