// Texture objects against plain C++: geometries, filters, address modes, mipmaps, gathers.
// SPDX-License-Identifier: Apache-2.0
#include "texture_app.h"

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
  const bool good =
      geometries() & weights() & layers() & cubes() & cube_edge() & mipmaps() & gathers();
  return app::finish("textures", good);
}
