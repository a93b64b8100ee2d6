// Texture objects against plain C++: formats of texels, and textures of plain memory.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

#include <cstring>

#include "texture_app.h"

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

int main() {
  const bool good = formats() & memory();
  return app::finish("texture_formats", good);
}
