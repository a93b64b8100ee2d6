// Conditional nodes through the runtime: a loop that the device ends, a choice between two bodies,
// a body that is captured from a stream. Newton's square roots, as often as they need.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "app.h"

constexpr int kCount = 1000, kBlocks = (kCount + 127) / 128;

__global__ void begin(float* roots, const float* of, int* steps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) roots[i] = of[i] < 1 ? 1 : of[i];
  if (i == 0) *steps = 0;
}

__global__ void improve(float* roots, const float* of, unsigned* worst) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= kCount) return;
  const float before = roots[i], after = (before + of[i] / before) / 2;
  roots[i] = after;
  atomicMax(worst, __float_as_uint(fabsf(after - before) / after));
}

__global__ void decide(unsigned* worst, int* steps, cudaGraphConditionalHandle again) {
  ++*steps;
  cudaGraphSetConditional(again, __uint_as_float(*worst) > 1e-6f && *steps < 100);
  *worst = 0;
}

__global__ void judge(const int* steps, cudaGraphConditionalHandle many) {
  cudaGraphSetConditional(many, *steps > 10);
}

__global__ void say(int* verdict, int value) { *verdict = value; }

struct Buffers {
  float *roots, *of;
  unsigned* worst;
  int *steps, *verdict;
};

cudaGraphNode_t last_of(cudaStream_t stream, cudaGraph_t* graph) {
  cudaStreamCaptureStatus status;
  const cudaGraphNode_t* nodes = nullptr;
  size_t count = 0;
  CHECKED(cudaStreamGetCaptureInfo(stream, &status, nullptr, graph, &nodes, nullptr, &count));
  return count == 1 ? nodes[0] : nullptr;
}

// A node behind what `stream` has captured, which the stream then goes on from.
cudaGraph_t* add_conditional(cudaStream_t stream, cudaGraphConditionalHandle handle,
                             cudaGraphConditionalNodeType type, unsigned size) {
  cudaGraph_t graph;
  cudaGraphNode_t before = last_of(stream, &graph), node;
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  CHECKED(cudaGraphAddNode(&node, graph, &before, nullptr, 1, &params));
  CHECKED(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1,
                                              cudaStreamSetCaptureDependencies));
  return params.conditional.phGraph_out;
}

cudaGraph_t capture(const Buffers& b, cudaStream_t stream, cudaStream_t inside) {
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  begin<<<kBlocks, 128, 0, stream>>>(b.roots, b.of, b.steps);
  cudaGraph_t graph;
  last_of(stream, &graph);
  cudaGraphConditionalHandle again, many;
  CHECKED(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
  CHECKED(cudaGraphConditionalHandleCreate(&many, graph, 0, cudaGraphCondAssignDefault));
  cudaGraph_t* body = add_conditional(stream, again, cudaGraphCondTypeWhile, 1);
  CHECKED(cudaStreamBeginCaptureToGraph(inside, body[0], nullptr, nullptr, 0,
                                        cudaStreamCaptureModeRelaxed));
  improve<<<kBlocks, 128, 0, inside>>>(b.roots, b.of, b.worst);
  decide<<<1, 1, 0, inside>>>(b.worst, b.steps, again);
  CHECKED(cudaStreamEndCapture(inside, &body[0]));
  judge<<<1, 1, 0, stream>>>(b.steps, many);
  cudaGraph_t* choice = add_conditional(stream, many, cudaGraphCondTypeIf, 2);
  for (int i = 0; i < 2; ++i) {
    CHECKED(cudaStreamBeginCaptureToGraph(inside, choice[i], nullptr, nullptr, 0,
                                          cudaStreamCaptureModeRelaxed));
    say<<<1, 1, 0, inside>>>(b.verdict, i == 0 ? 111 : 222);
    CHECKED(cudaStreamEndCapture(inside, &choice[i]));
  }
  CHECKED(cudaStreamEndCapture(stream, &graph));
  return graph;
}

int main() {
  Buffers b;
  CHECKED(cudaMalloc(&b.roots, kCount * sizeof(float)));
  CHECKED(cudaMalloc(&b.of, kCount * sizeof(float)));
  CHECKED(cudaMalloc(&b.worst, sizeof(unsigned)));
  CHECKED(cudaMalloc(&b.steps, sizeof(int)));
  CHECKED(cudaMalloc(&b.verdict, sizeof(int)));
  CHECKED(cudaMemset(b.worst, 0, sizeof(unsigned)));
  cudaStream_t stream, inside;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECKED(cudaStreamCreateWithFlags(&inside, cudaStreamNonBlocking));
  const cudaGraph_t graph = capture(b, stream, inside);
  cudaGraphExec_t exec;
  CHECKED(cudaGraphInstantiate(&exec, graph, 0));
  app::Random random(7);
  int wrong = 0;
  for (const float scale : {1.0f, 1e8f, 1.0f}) {
    std::vector<float> of(kCount), roots(kCount);
    for (float& value : of) value = 1 + (scale - 1) * random.unit();
    int steps = 0, verdict = 0;
    CHECKED(cudaMemcpy(b.of, of.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    CHECKED(cudaGraphLaunch(exec, stream));
    CHECKED(cudaStreamSynchronize(stream));
    CHECKED(cudaMemcpy(roots.data(), b.roots, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    CHECKED(cudaMemcpy(&steps, b.steps, sizeof(int), cudaMemcpyDeviceToHost));
    CHECKED(cudaMemcpy(&verdict, b.verdict, sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < kCount; ++i)
      wrong += std::fabs(roots[i] - std::sqrt(of[i])) > 1e-5f * std::sqrt(of[i]);
    wrong += verdict != (steps > 10 ? 111 : 222);
    std::printf("up to %g: %d steps, verdict %d\n", scale, steps, verdict);
  }
  CHECKED(cudaGraphExecDestroy(exec));
  CHECKED(cudaGraphDestroy(graph));
  return app::finish("graph_loop", wrong == 0);
}
