// Plain loops, each shared among the threads.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/softgpu/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "tools/bench/softgpu/workers.h"

namespace vgpu::bench::reference {
namespace {

Workers* workers = nullptr;

}  // namespace

void use_threads(unsigned threads) { workers = new Workers(threads); }

void vecadd(const float* a, const float* b, float* c, size_t n) {
  workers->share(n, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) c[i] = a[i] + b[i];
  });
}

void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
  workers->share(n, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) out[i] = a * x[i] + y[i];
  });
}

void sum(const float* x, size_t n, double* out) {
  std::mutex mutex;
  *out = 0;
  workers->share(n, [&](size_t first, size_t last) {
    constexpr size_t kSums = 16;
    float sums[kSums] = {};
    size_t i = first;
    for (; i + kSums <= last; i += kSums) {
      for (size_t k = 0; k < kSums; ++k) sums[k] += x[i + k];
    }
    double total = 0;
    for (; i < last; ++i) total += x[i];
    for (float s : sums) total += s;
    std::lock_guard lock(mutex);
    *out += total;
  });
}

void histogram(const uint32_t* x, size_t n, uint32_t* bins) {
  std::mutex mutex;
  std::memset(bins, 0, 256 * sizeof *bins);
  workers->share(n, [&](size_t first, size_t last) {
    uint32_t own[256] = {};
    for (size_t i = first; i < last; ++i) ++own[x[i] & 255];
    std::lock_guard lock(mutex);
    for (int i = 0; i < 256; ++i) bins[i] += own[i];
  });
}

void sgemm(const float* a, const float* b, float* c, size_t n) {
  workers->share(n, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      for (size_t j = 0; j < n; ++j) c[i * n + j] = 0;
      for (size_t k = 0; k < n; ++k) {
        for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
      }
    }
  });
}

void mandelbrot(int* out, int width, int height, int limit) {
  workers->share(static_cast<size_t>(height), [=](size_t first, size_t last) {
    for (size_t row = first; row < last; ++row) {
      for (int column = 0; column < width; ++column) {
        const float cx = -2.0f + 3.0f * static_cast<float>(column) / static_cast<float>(width);
        const float cy = -1.5f + 3.0f * static_cast<float>(row) / static_cast<float>(height);
        float x = 0, y = 0;
        int i = 0;
        for (; i < limit && x * x + y * y < 4.0f; ++i) {
          const float next = x * x - y * y + cx;
          y = 2.0f * x * y + cy;
          x = next;
        }
        out[row * static_cast<size_t>(width) + static_cast<size_t>(column)] = i;
      }
    }
  });
}

void nbody(const float* position, float* force, size_t bodies) {
  workers->share(bodies, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      float fx = 0, fy = 0, fz = 0;
      for (size_t j = 0; j < bodies; ++j) {
        const float dx = position[4 * j] - position[4 * i];
        const float dy = position[4 * j + 1] - position[4 * i + 1];
        const float dz = position[4 * j + 2] - position[4 * i + 2];
        const float square = dx * dx + dy * dy + dz * dz + 0.01f;
        const float inverse = 1.0f / std::sqrt(square);
        const float scale = position[4 * j + 3] * inverse * inverse * inverse;
        fx += dx * scale;
        fy += dy * scale;
        fz += dz * scale;
      }
      force[4 * i] = fx;
      force[4 * i + 1] = fy;
      force[4 * i + 2] = fz;
      force[4 * i + 3] = 0;
    }
  });
}

namespace {

float normal_distribution(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * std::fabs(d));
  const float poly =
      k * (0.31938153f +
           k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  const float tail = 0.39894228040143267794f * std::exp(-0.5f * d * d) * poly;
  return d > 0 ? 1.0f - tail : tail;
}

}  // namespace

void black_scholes(const float* price, const float* strike, const float* years, float* call,
                   float* put, size_t n) {
  constexpr float kRate = 0.02f, kVolatility = 0.3f;
  workers->share(n, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const float root = std::sqrt(years[i]);
      const float d1 =
          (std::log(price[i] / strike[i]) + (kRate + 0.5f * kVolatility * kVolatility) * years[i]) /
          (kVolatility * root);
      const float d2 = d1 - kVolatility * root;
      const float discount = std::exp(-kRate * years[i]);
      const float n1 = normal_distribution(d1), n2 = normal_distribution(d2);
      call[i] = price[i] * n1 - strike[i] * discount * n2;
      put[i] = strike[i] * discount * (1.0f - n2) - price[i] * (1.0f - n1);
    }
  });
}

void transpose(const float* in, float* out, size_t n) {
  constexpr size_t kTile = 32;
  workers->share(n / kTile, [=](size_t first, size_t last) {
    for (size_t tile = first; tile < last; ++tile) {
      for (size_t other = 0; other < n / kTile; ++other) {
        for (size_t i = tile * kTile; i < (tile + 1) * kTile; ++i) {
          for (size_t j = other * kTile; j < (other + 1) * kTile; ++j)
            out[i * n + j] = in[j * n + i];
        }
      }
    }
  });
}

void stencil(const float* in, float* out, size_t n) {
  workers->share(n, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      if (i == 0 || i == n - 1) {
        std::memcpy(out + i * n, in + i * n, n * sizeof *in);
        continue;
      }
      out[i * n] = in[i * n];
      for (size_t j = 1; j < n - 1; ++j) {
        const size_t at = i * n + j;
        out[at] = 0.5f * in[at] + 0.125f * (in[at - 1] + in[at + 1] + in[at - n] + in[at + n]);
      }
      out[i * n + n - 1] = in[i * n + n - 1];
    }
  });
}

void spmv(const int* row, const int* column, const float* value, const float* x, float* y,
          size_t rows) {
  workers->share(rows, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      float total = 0;
      for (int k = row[i]; k < row[i + 1]; ++k) total += value[k] * x[column[k]];
      y[i] = total;
    }
  });
}

void bitonic(uint32_t* keys, size_t n, size_t segment) {
  workers->share(n / segment, [=](size_t first, size_t last) {
    for (size_t s = first; s < last; ++s) {
      uint32_t* const own = keys + s * segment;
      for (size_t size = 2; size <= segment; size *= 2) {
        for (size_t step = size / 2; step > 0; step /= 2) {
          for (size_t i = 0; i < segment; ++i) {
            const size_t other = i ^ step;
            if (other <= i) continue;
            const bool up = (i & size) == 0;
            if ((own[i] > own[other]) == up) std::swap(own[i], own[other]);
          }
        }
      }
    }
  });
}

}  // namespace vgpu::bench::reference
