// What the programs on texture objects share: sampling on the device, arrays with known contents,
// and the reference in plain C++. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_APPS_TEXTURE_APP_H_
#define VGPU_TESTS_APPS_TEXTURE_APP_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "app.h"

// Where each thread samples.
struct Place {
  float x, y, z, level;
  int layer;
};

enum Kind {
  k1D,
  k2D,
  k3D,
  k1DLayered,
  k2DLayered,
  kCube,
  kCubeLayered,
  k2DLevel,
  k2DGradient,
  k1DFetch
};

template <typename T>
__global__ void sample(cudaTextureObject_t t, const Place* places, T* out, int n, Kind kind) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Place p = places[i];
  switch (kind) {
    case k1D:
      out[i] = tex1D<T>(t, p.x);
      break;
    case k2D:
      out[i] = tex2D<T>(t, p.x, p.y);
      break;
    case k3D:
      out[i] = tex3D<T>(t, p.x, p.y, p.z);
      break;
    case k1DLayered:
      out[i] = tex1DLayered<T>(t, p.x, p.layer);
      break;
    case k2DLayered:
      out[i] = tex2DLayered<T>(t, p.x, p.y, p.layer);
      break;
    case kCube:
      out[i] = texCubemap<T>(t, p.x, p.y, p.z);
      break;
    case kCubeLayered:
      out[i] = texCubemapLayered<T>(t, p.x, p.y, p.z, p.layer);
      break;
    case k2DLevel:
      out[i] = tex2DLod<T>(t, p.x, p.y, p.level);
      break;
    case k2DGradient:
      out[i] = tex2DGrad<T>(t, p.x, p.y, make_float2(p.z, 0), make_float2(0, p.z));
      break;
    case k1DFetch:
      out[i] = tex1Dfetch<T>(t, p.layer);
      break;
  }
}

template <typename T>
std::vector<T> run(cudaTextureObject_t t, const std::vector<Place>& places, Kind kind) {
  const int n = static_cast<int>(places.size());
  Place* in = nullptr;
  T* out = nullptr;
  CHECKED(cudaMalloc(&in, n * sizeof(Place)));
  CHECKED(cudaMalloc(&out, n * sizeof(T)));
  CHECKED(cudaMemcpy(in, places.data(), n * sizeof(Place), cudaMemcpyHostToDevice));
  sample<T><<<(n + 63) / 64, 64>>>(t, in, out, n, kind);
  CHECKED(cudaGetLastError());
  std::vector<T> result(n);
  CHECKED(cudaMemcpy(result.data(), out, n * sizeof(T), cudaMemcpyDeviceToHost));
  CHECKED(cudaFree(in));
  CHECKED(cudaFree(out));
  return result;
}

// An array of w x h x d floats (0: no such axis) with known contents.
struct Volume {
  int w, h, d;
  std::vector<float> data;
  cudaArray_t array = nullptr;
  Volume(int width, int height, int depth, unsigned flags, uint64_t seed)
      : w(width), h(height), d(depth) {
    app::Random random(seed);
    data.resize(size_t(w) * std::max(h, 1) * std::max(d, 1));
    for (float& value : data) value = random.unit();
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECKED(cudaMalloc3DArray(&array, &format, make_cudaExtent(w, h, d), flags));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(data.data(), w * sizeof(float), w, std::max(h, 1));
    copy.dstArray = array;
    copy.extent = make_cudaExtent(w, std::max(h, 1), std::max(d, 1));
    copy.kind = cudaMemcpyHostToDevice;
    CHECKED(cudaMemcpy3D(&copy));
  }
  ~Volume() { CHECKED(cudaFreeArray(array)); }
};

inline cudaTextureObject_t make_texture(const cudaResourceDesc& resource,
                                        const cudaTextureDesc& how) {
  cudaTextureObject_t t = 0;
  CHECKED(cudaCreateTextureObject(&t, &resource, &how, nullptr));
  return t;
}

inline cudaTextureObject_t make_texture(cudaArray_t array, const cudaTextureDesc& how) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return make_texture(resource, how);
}

// --- the reference: exact weights in double

constexpr float kBorder = 0.25f;

inline double texel(const Volume& v, cudaTextureAddressMode mode, long x, long y, long z) {
  const long size[3] = {v.w, std::max(v.h, 1), std::max(v.d, 1)};
  long at[3] = {x, y, z};
  for (int a = 0; a < 3; ++a) {
    const long n = size[a];
    switch (mode) {
      case cudaAddressModeWrap:
        at[a] = ((at[a] % n) + n) % n;
        break;
      case cudaAddressModeMirror: {
        const long m = ((at[a] % (2 * n)) + 2 * n) % (2 * n);
        at[a] = m < n ? m : 2 * n - 1 - m;
        break;
      }
      case cudaAddressModeBorder:
        if (at[a] < 0 || at[a] >= n) return kBorder;
        break;
      default:
        at[a] = std::min(std::max(at[a], 0l), n - 1);
    }
  }
  return v.data[(at[2] * size[1] + at[1]) * size[0] + at[0]];
}

// x, y, z in texels; axes that do not exist are at 0.5.
inline double reference(const Volume& v, cudaTextureAddressMode mode, bool linear, double x,
                        double y, double z) {
  if (!linear) return texel(v, mode, std::floor(x), std::floor(y), std::floor(z));
  const double b[3] = {x - 0.5, y - 0.5, z - 0.5};
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double weight = 1;
    long at[3];
    for (int a = 0; a < 3; ++a) {
      const double f = b[a] - std::floor(b[a]);
      const int second = corner >> a & 1;
      at[a] = static_cast<long>(std::floor(b[a])) + second;
      weight *= second ? f : 1 - f;
    }
    if (weight > 0) sum += weight * texel(v, mode, at[0], at[1], at[2]);
  }
  return sum;
}

// Weights have 8 bits: half a step for each axis, for values in [0, 1].
inline bool near(double a, double b, bool linear) {
  return std::fabs(a - b) <= (linear ? 3.0 / 512 + 1e-4 : 1e-6);
}

// Places spread over [-1.5, 2.5) of every extent, a sixteenth off the edges of texels.
inline std::vector<Place> scatter(const Volume& v, bool normalized, int n, uint64_t seed) {
  std::vector<Place> places(n);
  app::Random random(seed);
  const auto pick = [&](int extent) {
    if (extent == 0) return 0.5f;
    const int eighths = static_cast<int>(random.next() % (32 * extent)) - 12 * extent;
    const float x = eighths / 8.0f + 1.0f / 16;
    return normalized ? x / extent : x;
  };
  for (Place& p : places) p = {pick(v.w), pick(v.h), pick(v.d), 0, 0};
  return places;
}

#endif  // VGPU_TESTS_APPS_TEXTURE_APP_H_
