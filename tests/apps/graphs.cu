// CUDA graphs through the runtime: captured across streams, built by hand, updated, launched again
// and again. Argument: how often the graph of 1,000 kernels is launched.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

__global__ void add(int* data, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += value;
}

__global__ void sum_up(const int* left, const int* right, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = left[i] + right[i];
}

constexpr int kCount = 1000, kBlocks = (kCount + 127) / 128;
constexpr size_t kBytes = kCount * sizeof(int);

struct Buffers {
  int *a, *b, *out;
  std::vector<int> in = std::vector<int>(kCount), result = std::vector<int>(kCount);
};

int wrong_ones(const std::vector<int>& values, int want) {
  int wrong = 0;
  for (int value : values) wrong += value != want;
  return wrong;
}

// Two branches, ordinary host memory at both ends.
int captured(Buffers& buffers, cudaStream_t stream) {
  cudaStream_t branch;
  cudaEvent_t fork, join;
  CHECKED(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
  CHECKED(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECKED(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECKED(cudaMemcpyAsync(buffers.a, buffers.in.data(), kBytes, cudaMemcpyHostToDevice, stream));
  CHECKED(cudaEventRecord(fork, stream));
  CHECKED(cudaStreamWaitEvent(branch, fork, 0));
  CHECKED(cudaMemcpyAsync(buffers.b, buffers.a, kBytes, cudaMemcpyDeviceToDevice, branch));
  add<<<kBlocks, 128, 0, branch>>>(buffers.b, kCount, 7);
  CHECKED(cudaEventRecord(join, branch));
  CHECKED(cudaMemsetAsync(buffers.out, 0, kBytes, stream));
  CHECKED(cudaStreamWaitEvent(stream, join, 0));
  sum_up<<<kBlocks, 128, 0, stream>>>(buffers.a, buffers.b, buffers.out, kCount);
  CHECKED(
      cudaMemcpyAsync(buffers.result.data(), buffers.out, kBytes, cudaMemcpyDeviceToHost, stream));
  cudaGraph_t graph;
  CHECKED(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECKED(cudaGraphGetNodes(graph, nullptr, &nodes));
  std::printf("captured nodes %zu\n", nodes);
  cudaGraphExec_t exec;
  CHECKED(cudaGraphInstantiate(&exec, graph, 0));
  int wrong = 0;
  for (int round = 0; round < 5; ++round) {
    buffers.in.assign(kCount, round);
    CHECKED(cudaGraphLaunch(exec, stream));
    CHECKED(cudaStreamSynchronize(stream));
    wrong += wrong_ones(buffers.result, 2 * round + 7);
  }
  CHECKED(cudaGraphExecDestroy(exec));
  CHECKED(cudaGraphDestroy(graph));
  CHECKED(cudaEventDestroy(fork));
  CHECKED(cudaEventDestroy(join));
  CHECKED(cudaStreamDestroy(branch));
  return wrong;
}

cudaKernelNodeParams kernel_params(void** arguments) {
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(add);
  params.gridDim = dim3(kBlocks);
  params.blockDim = dim3(128);
  params.kernelParams = arguments;
  return params;
}

// A chain of 1,000 kernels, some of them changed between two launches.
int by_hand(Buffers& buffers, cudaStream_t stream, int launches) {
  constexpr int kKernels = 1000;
  cudaGraph_t graph;
  CHECKED(cudaGraphCreate(&graph, 0));
  int count = kCount, value = 1;
  void* arguments[] = {&buffers.a, &count, &value};
  cudaKernelNodeParams params = kernel_params(arguments);
  cudaGraphNode_t last = nullptr, first = nullptr;
  for (int i = 0; i < kKernels; ++i) {
    cudaGraphNode_t node;
    CHECKED(cudaGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &params));
    if (i == 0) first = node;
    last = node;
  }
  cudaGraphExec_t exec;
  CHECKED(cudaGraphInstantiate(&exec, graph, 0));
  CHECKED(cudaMemsetAsync(buffers.a, 0, kBytes, stream));
  for (int i = 0; i < launches; ++i) CHECKED(cudaGraphLaunch(exec, stream));
  value = 1001;
  CHECKED(cudaGraphExecKernelNodeSetParams(exec, first, &params));
  CHECKED(cudaGraphLaunch(exec, stream));
  CHECKED(
      cudaMemcpyAsync(buffers.result.data(), buffers.a, kBytes, cudaMemcpyDeviceToHost, stream));
  CHECKED(cudaStreamSynchronize(stream));
  CHECKED(cudaGraphExecDestroy(exec));
  CHECKED(cudaGraphDestroy(graph));
  return wrong_ones(buffers.result, (launches + 1) * kKernels + 1000);
}

// What native codes say about calls that do not go together with capture.
bool refused(Buffers& buffers, cudaStream_t stream) {
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  add<<<kBlocks, 128, 0, stream>>>(buffers.a, kCount, 1);
  const cudaError_t synchronised = cudaStreamSynchronize(stream);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  std::printf("synchronise %s, end %s\n", cudaGetErrorName(synchronised), cudaGetErrorName(ended));
  (void)cudaGetLastError();
  return synchronised == cudaErrorStreamCaptureUnsupported &&
         ended == cudaErrorStreamCaptureInvalidated && graph == nullptr;
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 3;
  Buffers buffers;
  for (int** each : {&buffers.a, &buffers.b, &buffers.out}) CHECKED(cudaMalloc(each, kBytes));
  cudaStream_t stream;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const int from_capture = captured(buffers, stream);
  const int from_hand = by_hand(buffers, stream, launches);
  const bool codes = refused(buffers, stream);
  std::printf("wrong %d %d\n", from_capture, from_hand);
  CHECKED(cudaStreamDestroy(stream));
  for (int* each : {buffers.a, buffers.b, buffers.out}) CHECKED(cudaFree(each));
  return app::finish("graphs", from_capture == 0 && from_hand == 0 && codes);
}
