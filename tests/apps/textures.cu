// Texture objects against plain C++: geometries, filters, address modes, formats, mipmaps, gathers.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

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

cudaTextureObject_t make_texture(const cudaResourceDesc& resource, const cudaTextureDesc& how) {
  cudaTextureObject_t t = 0;
  CHECKED(cudaCreateTextureObject(&t, &resource, &how, nullptr));
  return t;
}

cudaTextureObject_t make_texture(cudaArray_t array, const cudaTextureDesc& how) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return make_texture(resource, how);
}

// --- the reference: exact weights in double

constexpr float kBorder = 0.25f;

double texel(const Volume& v, cudaTextureAddressMode mode, long x, long y, long z) {
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
double reference(const Volume& v, cudaTextureAddressMode mode, bool linear, double x, double y,
                 double z) {
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
bool near(double a, double b, bool linear) {
  return std::fabs(a - b) <= (linear ? 3.0 / 512 + 1e-4 : 1e-6);
}

// Places spread over [-1.5, 2.5) of every extent, a sixteenth off the edges of texels.
std::vector<Place> scatter(const Volume& v, bool normalized, int n, uint64_t seed) {
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

bool compare(const Volume& v, Kind kind, cudaTextureAddressMode mode, bool linear,
             bool normalized) {
  cudaTextureDesc how = {};
  for (auto& axis : how.addressMode) axis = mode;
  how.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
  how.normalizedCoords = normalized;
  how.borderColor[0] = kBorder;
  const cudaTextureObject_t t = make_texture(v.array, how);
  const auto places = scatter(v, normalized, 500, 7);
  const auto got = run<float>(t, places, kind);
  CHECKED(cudaDestroyTextureObject(t));
  // Without normalised coordinates wrapping and mirroring mean clamping.
  if (!normalized && mode != cudaAddressModeBorder) mode = cudaAddressModeClamp;
  const auto scale = [&](float x, int extent) {
    return extent == 0 ? 0.5 : normalized ? double(x) * extent : double(x);
  };
  for (size_t i = 0; i < places.size(); ++i) {
    const double wanted = reference(v, mode, linear, scale(places[i].x, v.w),
                                    scale(places[i].y, v.h), scale(places[i].z, v.d));
    if (near(got[i], wanted, linear)) continue;
    std::printf("kind %d, mode %d, %s, %s: (%g, %g, %g) gave %g, not %g\n", kind, mode,
                linear ? "linear" : "point", normalized ? "normalised" : "in texels", places[i].x,
                places[i].y, places[i].z, got[i], wanted);
    return false;
  }
  return true;
}

bool geometries() {
  const Volume row(37, 0, 0, 0, 1), plane(19, 11, 0, 0, 2), solid(9, 7, 5, 0, 3);
  bool good = true;
  for (int mode = 0; mode < 4; ++mode) {
    for (int flags = 0; flags < 4; ++flags) {
      const auto m = static_cast<cudaTextureAddressMode>(mode);
      good = compare(row, k1D, m, flags & 1, flags & 2) && good;
      good = compare(plane, k2D, m, flags & 1, flags & 2) && good;
      good = compare(solid, k3D, m, flags & 1, flags & 2) && good;
    }
  }
  std::printf("geometries: %s\n", good ? "ok" : "wrong");
  return good;
}

// Weights that 8 bits hold exactly give exact results.
bool weights() {
  const Volume row(8, 0, 0, 0, 4);
  cudaTextureDesc how = {};
  how.addressMode[0] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  const cudaTextureObject_t t = make_texture(row.array, how);
  std::vector<Place> places;
  for (int i = 0; i < 7 * 256; ++i) places.push_back({0.5f + i / 256.0f, 0, 0, 0, 0});
  const auto got = run<float>(t, places, k1D);
  bool good = true;
  for (int i = 0; i < 7 * 256; ++i) {
    const float w = (i & 255) / 256.0f;
    const float wanted = (1 - w) * row.data[i >> 8] + w * row.data[std::min((i >> 8) + 1, 7)];
    good = good && std::fabs(got[i] - wanted) < 1e-6f;
  }
  CHECKED(cudaDestroyTextureObject(t));
  std::printf("weights: %s\n", good ? "ok" : "wrong");
  return good;
}

bool layers() {
  const Volume rows(20, 0, 4, cudaArrayLayered, 5), planes(12, 8, 3, cudaArrayLayered, 6);
  cudaTextureDesc how = {};
  for (auto& axis : how.addressMode) axis = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  bool good = true;
  for (const Volume* v : {&rows, &planes}) {
    const cudaTextureObject_t t = make_texture(v->array, how);
    auto places = scatter(*v, false, 300, 8);
    for (size_t i = 0; i < places.size(); ++i) places[i].layer = static_cast<int>(i % 7) - 1;
    const auto got = run<float>(t, places, v == &rows ? k1DLayered : k2DLayered);
    CHECKED(cudaDestroyTextureObject(t));
    for (size_t i = 0; i < places.size(); ++i) {
      const int layer = std::min(std::max(places[i].layer, 0), v->d - 1);
      const double wanted = reference(*v, cudaAddressModeClamp, true, places[i].x,
                                      v->h == 0 ? 0.5 : places[i].y, layer + 0.5);
      good = good && near(got[i], wanted, true);
    }
  }
  std::printf("layers: %s\n", good ? "ok" : "wrong");
  return good;
}

// The centre of texel (i, j) of a face, as CUDA numbers and turns the faces.
Place cube_texel(int face, int i, int j, int n, int layer) {
  const float s = (2 * i + 1.0f) / n - 1, t = (2 * j + 1.0f) / n - 1;
  const float directions[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t},
                                  {s, -1, -t}, {s, -t, 1},  {-s, -t, -1}};
  const float* d = directions[face];
  return {d[0] * 3, d[1] * 3, d[2] * 3, 0, layer};
}

bool cubes() {
  constexpr int kSide = 8;
  const Volume one(kSide, kSide, 6, cudaArrayCubemap, 9);
  const Volume many(kSide, kSide, 18, cudaArrayCubemap | cudaArrayLayered, 10);
  bool good = true;
  for (int linear = 0; linear < 2; ++linear) {
    for (int seamless = 0; seamless < 2; ++seamless) {
      cudaTextureDesc how = {};
      for (auto& axis : how.addressMode) axis = cudaAddressModeClamp;
      how.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
      how.normalizedCoords = 1;
      how.seamlessCubemap = seamless;
      for (const Volume* v : {&one, &many}) {
        std::vector<Place> places;
        std::vector<float> wanted;
        for (int slice = 0; slice < v->d; ++slice) {
          for (int j = 0; j < kSide; ++j) {
            for (int i = 0; i < kSide; ++i) {
              places.push_back(cube_texel(slice % 6, i, j, kSide, slice / 6));
              wanted.push_back(v->data[(slice * kSide + j) * kSide + i]);
            }
          }
        }
        const cudaTextureObject_t t = make_texture(v->array, how);
        const auto got = run<float>(t, places, v == &one ? kCube : kCubeLayered);
        CHECKED(cudaDestroyTextureObject(t));
        for (size_t i = 0; i < wanted.size(); ++i) good = good && near(got[i], wanted[i], linear);
      }
    }
  }
  std::printf("cubes: %s\n", good ? "ok" : "wrong");
  return good;
}

// Straight over the edge between +x and +z both sides count half, when the cube is seamless.
bool cube_edge() {
  constexpr int kSide = 4;
  const Volume one(kSide, kSide, 6, cudaArrayCubemap, 11);
  cudaTextureDesc how = {};
  for (auto& axis : how.addressMode) axis = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  how.normalizedCoords = 1;
  how.seamlessCubemap = 1;
  const cudaTextureObject_t t = make_texture(one.array, how);
  const float height = (2 * 1 + 1.0f) / kSide - 1;  // centre of row 1
  const auto got = run<float>(t, {{1, -height, 1, 0, 0}}, kCube);
  CHECKED(cudaDestroyTextureObject(t));
  const float x = one.data[(0 * kSide + 1) * kSide + 0], z = one.data[(4 * kSide + 1) * kSide + 3];
  const bool good = near(got[0], (x + z) / 2, true);
  std::printf("cube edge: %s\n", good ? "ok" : "wrong");
  return good;
}

bool mipmaps() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mipmapped = nullptr;
  CHECKED(cudaMallocMipmappedArray(&mipmapped, &format, make_cudaExtent(16, 16, 0), 5));
  for (int level = 0; level < 5; ++level) {  // level i holds 10 * i everywhere
    cudaArray_t array = nullptr;
    CHECKED(cudaGetMipmappedArrayLevel(&array, mipmapped, level));
    const int side = 16 >> level;
    std::vector<float> data(side * side, 10.0f * level);
    CHECKED(cudaMemcpy2DToArray(array, 0, 0, data.data(), side * 4, side * 4, side,
                                cudaMemcpyHostToDevice));
  }
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mipmapped;
  bool good = true;
  for (int linear = 0; linear < 2; ++linear) {
    cudaTextureDesc how = {};
    how.normalizedCoords = 1;
    how.filterMode = cudaFilterModeLinear;
    how.mipmapFilterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    how.mipmapLevelBias = 0.25f;
    how.minMipmapLevelClamp = 0.5f;
    how.maxMipmapLevelClamp = 3.0f;
    const cudaTextureObject_t t = make_texture(resource, how);
    std::vector<Place> places;
    for (int i = 0; i < 60; ++i) places.push_back({0.3f, 0.6f, 0, i / 10.0f - 1 + 0.01f, 0});
    const auto got = run<float>(t, places, k2DLevel);
    for (int i = 0; i < 60; ++i) {
      const float level = std::min(std::max(places[i].level + 0.25f, 0.5f), 3.0f);
      const float wanted = linear ? level * 10 : std::floor(level + 0.5f) * 10;
      good = good && std::fabs(got[i] - wanted) <= (linear ? 0.03f : 0);
    }
    // One step of 4 / 16 of the texture per pixel is 4 texels: level 2, and the bias.
    const auto gradient = run<float>(t, {{0.3f, 0.6f, 0.25f, 0, 0}}, k2DGradient);
    good = good && std::fabs(gradient[0] - (linear ? 22.5f : 20)) < 0.05f;
    CHECKED(cudaDestroyTextureObject(t));
  }
  CHECKED(cudaFreeMipmappedArray(mipmapped));
  std::printf("mipmaps: %s\n", good ? "ok" : "wrong");
  return good;
}

// --- formats

template <typename T>
cudaTextureObject_t plane_of(const std::vector<T>& texels, int width, int height, bool scaled,
                             cudaArray_t* array) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
  CHECKED(cudaMallocArray(array, &format, width, height));
  CHECKED(cudaMemcpy2DToArray(*array, 0, 0, texels.data(), width * sizeof(T), width * sizeof(T),
                              height, cudaMemcpyHostToDevice));
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.readMode = scaled ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
  return make_texture(*array, how);
}

std::vector<Place> all_texels(int width, int height) {
  std::vector<Place> places;
  for (int i = 0; i < width * height; ++i)
    places.push_back({i % width + 0.5f, i / width + 0.5f, 0, 0, 0});
  return places;
}

template <typename T>
bool elements(uint64_t seed) {
  std::vector<T> texels(16 * 4);
  app::Random random(seed);
  auto* bytes = reinterpret_cast<unsigned char*>(texels.data());
  for (size_t i = 0; i < texels.size() * sizeof(T); ++i)
    bytes[i] = static_cast<unsigned char>(random.next());
  cudaArray_t array = nullptr;
  const cudaTextureObject_t t = plane_of(texels, 16, 4, false, &array);
  const auto got = run<T>(t, all_texels(16, 4), k2D);
  CHECKED(cudaDestroyTextureObject(t));
  CHECKED(cudaFreeArray(array));
  return std::memcmp(got.data(), texels.data(), texels.size() * sizeof(T)) == 0;
}

template <typename T>
bool scaled(float divisor, uint64_t seed) {
  std::vector<T> texels(16 * 4);
  app::Random random(seed);
  for (T& value : texels) value = static_cast<T>(random.next());
  texels[0] = static_cast<T>(-divisor - 1);  // the most negative one counts as -1
  cudaArray_t array = nullptr;
  const cudaTextureObject_t t = plane_of(texels, 16, 4, true, &array);
  const auto got = run<float>(t, all_texels(16, 4), k2D);
  CHECKED(cudaDestroyTextureObject(t));
  CHECKED(cudaFreeArray(array));
  bool good = true;
  for (size_t i = 0; i < got.size(); ++i)
    good = good && std::fabs(got[i] - std::max(texels[i] / divisor, -1.0f)) < 1e-6f;
  return good;
}

bool halves() {
  std::vector<__half> texels(64);
  app::Random random(33);
  for (__half& value : texels) value = __float2half(random.unit() * 100 - 50);
  texels[1] = __float2half(3e-6f);  // denormal
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDescHalf();
  CHECKED(cudaMallocArray(&array, &format, 16, 4));
  CHECKED(cudaMemcpy2DToArray(array, 0, 0, texels.data(), 32, 32, 4, cudaMemcpyHostToDevice));
  cudaTextureDesc how = {};
  const cudaTextureObject_t t = make_texture(array, how);
  const auto got = run<float>(t, all_texels(16, 4), k2D);
  CHECKED(cudaDestroyTextureObject(t));
  CHECKED(cudaFreeArray(array));
  bool good = true;
  for (size_t i = 0; i < got.size(); ++i) good = good && got[i] == __half2float(texels[i]);
  return good;
}

bool srgb() {
  std::vector<uchar4> texels(64);
  for (int i = 0; i < 64; ++i)
    texels[i] = make_uchar4(i * 4, 255 - i, i, static_cast<unsigned char>(i * 3));
  cudaArray_t array = nullptr;
  const cudaTextureObject_t plain = plane_of(texels, 16, 4, true, &array);
  CHECKED(cudaDestroyTextureObject(plain));
  cudaTextureDesc how = {};
  how.readMode = cudaReadModeNormalizedFloat;
  how.sRGB = 1;
  const cudaTextureObject_t t = make_texture(array, how);
  const auto got = run<float4>(t, all_texels(16, 4), k2D);
  CHECKED(cudaDestroyTextureObject(t));
  CHECKED(cudaFreeArray(array));
  const auto linear = [](double v) {
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  bool good = true;
  for (int i = 0; i < 64; ++i) {
    good = good && std::fabs(got[i].x - linear(texels[i].x / 255.0)) < 1e-5;
    good = good && std::fabs(got[i].z - linear(texels[i].z / 255.0)) < 1e-5;
    good = good && std::fabs(got[i].w - texels[i].w / 255.0) < 1e-6;
  }
  return good;
}

bool formats() {
  bool good = elements<uchar4>(20) && elements<char2>(21) && elements<unsigned char>(22);
  good = good && elements<short>(23) && elements<ushort4>(24) && elements<int2>(25);
  good = good && elements<uint4>(26) && elements<unsigned>(27);
  const bool scales = scaled<unsigned char>(255, 30) && scaled<signed char>(127, 31) &&
                      scaled<unsigned short>(65535, 34) && scaled<short>(32767, 35);
  const bool half = halves(), colours = srgb();
  std::printf("formats: %s, %s, %s, %s\n", good ? "ok" : "wrong", scales ? "ok" : "wrong",
              half ? "ok" : "wrong", colours ? "ok" : "wrong");
  return good && scales && half && colours;
}

// --- memory

bool memory() {
  constexpr int kCount = 1000;
  std::vector<float2> data(kCount);
  for (int i = 0; i < kCount; ++i) data[i] = make_float2(i, -i);
  float2* row = nullptr;
  CHECKED(cudaMalloc(&row, kCount * sizeof(float2)));
  CHECKED(cudaMemcpy(row, data.data(), kCount * sizeof(float2), cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = row;
  resource.res.linear.desc = cudaCreateChannelDesc<float2>();
  resource.res.linear.sizeInBytes = kCount * sizeof(float2);
  cudaTextureObject_t t = make_texture(resource, cudaTextureDesc{});
  std::vector<Place> places;
  for (int i = -5; i < kCount + 5; ++i) places.push_back({0, 0, 0, 0, i});
  const auto got = run<float2>(t, places, k1DFetch);
  bool good = true;
  for (int i = -5; i < kCount + 5; ++i) {
    const float2 wanted = i < 0 || i >= kCount ? make_float2(0, 0) : data[i];
    good = good && got[i + 5].x == wanted.x && got[i + 5].y == wanted.y;
  }
  CHECKED(cudaDestroyTextureObject(t));
  CHECKED(cudaFree(row));
  // Pitched memory filters like an array.
  Volume plane(50, 20, 0, 0, 40);
  float* pixels = nullptr;
  size_t pitch = 0;
  CHECKED(cudaMallocPitch(&pixels, &pitch, 200, 20));
  CHECKED(cudaMemcpy2D(pixels, pitch, plane.data.data(), 200, 200, 20, cudaMemcpyHostToDevice));
  resource = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = pixels;
  resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  resource.res.pitch2D.width = 50;
  resource.res.pitch2D.height = 20;
  resource.res.pitch2D.pitchInBytes = pitch;
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  t = make_texture(resource, how);
  places = scatter(plane, false, 300, 41);
  const auto filtered = run<float>(t, places, k2D);
  for (size_t i = 0; i < places.size(); ++i) {
    good = good &&
           near(filtered[i],
                reference(plane, cudaAddressModeClamp, true, places[i].x, places[i].y, 0.5), true);
  }
  CHECKED(cudaDestroyTextureObject(t));
  CHECKED(cudaFree(pixels));
  std::printf("memory: %s\n", good ? "ok" : "wrong");
  return good;
}

__global__ void gather(cudaTextureObject_t t, float4* out, float x, float y) {
  out[0] = tex2Dgather<float4>(t, x, y, 0);
}

bool gathers() {
  const Volume plane(8, 8, 0, cudaArrayTextureGather, 50);
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  const cudaTextureObject_t t = make_texture(plane.array, how);
  float4* out = nullptr;
  CHECKED(cudaMalloc(&out, sizeof(float4)));
  bool good = true;
  for (int y = 1; y < 8; ++y) {
    for (int x = 1; x < 8; ++x) {  // around the point where four texels meet
      gather<<<1, 1>>>(t, out, float(x), float(y));
      float4 got;
      CHECKED(cudaMemcpy(&got, out, sizeof(got), cudaMemcpyDeviceToHost));
      const auto at = [&](int i, int j) { return plane.data[j * 8 + i]; };
      good = good && got.x == at(x - 1, y) && got.y == at(x, y) && got.z == at(x, y - 1) &&
             got.w == at(x - 1, y - 1);
    }
  }
  CHECKED(cudaFree(out));
  CHECKED(cudaDestroyTextureObject(t));
  std::printf("gathers: %s\n", good ? "ok" : "wrong");
  return good;
}

int main() {
  const bool good = geometries() & weights() & layers() & cubes() & cube_edge() & mipmaps() &
                    formats() & memory() & gathers();
  return app::finish("textures", good);
}
