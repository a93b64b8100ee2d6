// cuDNN: a convolution by each algorithm that takes it, activation, pooling, softmax.
// SPDX-License-Identifier: Apache-2.0
#include <cudnn.h>

#include <cmath>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;

constexpr int kIn = 3, kOut = 4, kSide = 16, kPixels = kSide * kSide;
const float kOne = 1, kZero = 0;

struct Tensor {
  cudnnTensorDescriptor_t descriptor = nullptr;
  Tensor(int channels, int side) {
    cudnnCreateTensorDescriptor(&descriptor);
    cudnnSetTensor4dDescriptor(descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, channels, side,
                               side);
  }
  ~Tensor() { cudnnDestroyTensorDescriptor(descriptor); }
};

std::vector<float> numbers(size_t count, int period) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<float>(static_cast<int>(i % period) - 2);
  return made;
}

// 3 x 3, one pixel of zeros around; whole numbers.
std::vector<float> convolved(const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<float> y(kOut * kPixels);
  for (int k = 0; k < kOut; ++k) {
    for (int at = 0; at < kPixels; ++at) {
      for (int c = 0; c < kIn; ++c) {
        for (int tap = 0; tap < 9; ++tap) {
          const int row = at / kSide + tap / 3 - 1, column = at % kSide + tap % 3 - 1;
          if (row < 0 || row >= kSide || column < 0 || column >= kSide) continue;
          y[k * kPixels + at] += x[c * kPixels + row * kSide + column] * w[(k * kIn + c) * 9 + tap];
        }
      }
    }
  }
  return y;
}

bool check_convolution(cudnnHandle_t dnn) {
  const std::vector<float> x = numbers(kIn * kPixels, 7), w = numbers(kOut * kIn * 9, 5);
  const std::vector<float> want = convolved(x, w);
  Array<float> device_x(x), device_w(w), y(want.size());
  const Tensor from(kIn, kSide), to(kOut, kSide);
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t convolution;
  cudnnCreateFilterDescriptor(&filter);
  cudnnCreateConvolutionDescriptor(&convolution);
  bool all = cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kOut, kIn, 3,
                                        3) == 0 &&
             cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                             CUDNN_DATA_FLOAT) == 0;
  for (auto algorithm :
       {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_FFT}) {
    size_t bytes = 0;
    bool good = cudnnGetConvolutionForwardWorkspaceSize(dnn, from.descriptor, filter, convolution,
                                                        to.descriptor, algorithm, &bytes) == 0;
    Array<char> room(std::max<size_t>(bytes, 1));
    good &= cudnnConvolutionForward(dnn, &kOne, from.descriptor, device_x.get(), filter,
                                    device_w.get(), convolution, algorithm, room.get(), bytes,
                                    &kZero, to.descriptor, y.get()) == 0;
    const std::vector<float> got = y.read();
    for (size_t i = 0; i < want.size(); ++i) good &= std::fabs(got[i] - want[i]) < 1e-2F;
    std::printf("convolution %d: ", static_cast<int>(algorithm));
    all &= report("forward", good);
  }
  return all & (cudnnDestroyFilterDescriptor(filter) == 0) &
         (cudnnDestroyConvolutionDescriptor(convolution) == 0);
}

bool check_layers(cudnnHandle_t dnn) {
  const std::vector<float> x = numbers(kIn * kPixels, 7);
  Array<float> device_x(x), y(x.size());
  const Tensor whole(kIn, kSide), half(kIn, kSide / 2);
  cudnnActivationDescriptor_t relu;
  cudnnPoolingDescriptor_t pool;
  cudnnCreateActivationDescriptor(&relu);
  cudnnCreatePoolingDescriptor(&pool);
  cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
  cudnnSetPooling2dDescriptor(pool, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2);
  bool good = cudnnActivationForward(dnn, relu, &kOne, whole.descriptor, device_x.get(), &kZero,
                                     whole.descriptor, y.get()) == 0;
  const std::vector<float> rectified = y.read();
  for (size_t i = 0; i < x.size(); ++i) good &= rectified[i] == std::max(x[i], 0.0F);
  bool all = report("relu", good);
  good = cudnnPoolingForward(dnn, pool, &kOne, whole.descriptor, device_x.get(), &kZero,
                             half.descriptor, y.get()) == 0;
  good &= y.first() == std::max({x[0], x[1], x[kSide], x[kSide + 1]});
  all &= report("largest of four", good);
  good =
      cudnnSoftmaxForward(dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne,
                          whole.descriptor, device_x.get(), &kZero, whole.descriptor, y.get()) == 0;
  const std::vector<float> parts = y.read();
  for (int at = 0; at < kPixels; ++at) {
    good &= std::fabs(parts[at] + parts[at + kPixels] + parts[at + 2 * kPixels] - 1) < 1e-5F;
  }
  all &= report("softmax", good);
  return all & (cudnnDestroyActivationDescriptor(relu) == 0) &
         (cudnnDestroyPoolingDescriptor(pool) == 0);
}

}  // namespace

int main() {
  cudnnHandle_t dnn = nullptr;
  bool good = report("create", cudnnCreate(&dnn) == CUDNN_STATUS_SUCCESS);
  if (good) {
    good &= check_convolution(dnn);
    good &= check_layers(dnn);
    good &= report("destroy", cudnnDestroy(dnn) == CUDNN_STATUS_SUCCESS);
  }
  return app::finish("cudnn", good);
}
