// Counts: whatever happens on the way, each kernel, copy and host function has its effect once and
// in its turn. For cuts of a network: `counter ROUNDS`.
// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <vector>

#include "app.h"

struct State {
  unsigned long long count, faults;
};

__global__ void step(State* state, unsigned long long expected) {
  if (state->count != expected) ++state->faults;
  state->count = expected + 1;
}

// What was copied for this step, and nothing else.
__global__ void check(State* state, const unsigned* data, int n, unsigned first) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    if (data[i] != first + i) atomicAdd(&state->faults, 1ULL);
  }
}

namespace {

constexpr int kSteps = 8;         // of a round
constexpr int kSmall = 5 * 1000;  // numbers: staged, but in one piece
constexpr int kLarge = 300'000;   // in several

struct Calls {
  int count = 0, faults = 0;
};
struct Call {
  Calls* calls;
  int number;
};

void CUDART_CB called(void* user) {
  const auto* call = static_cast<Call*>(user);
  if (call->calls->count != call->number) ++call->calls->faults;
  call->calls->count = call->number + 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
  const int pause_ms = argc > 2 ? std::atoi(argv[2]) : 0;  // after each
  State* state;
  unsigned* data;
  CHECKED(cudaMalloc(&state, sizeof(*state)));
  CHECKED(cudaMalloc(&data, kLarge * sizeof(*data)));
  CHECKED(cudaMemset(state, 0, sizeof(*state)));
  CHECKED(cudaDeviceSynchronize());
  std::printf("counting\n");
  std::fflush(stdout);
  std::vector<unsigned> numbers(kLarge);
  Calls calls;
  std::vector<Call> each(rounds);
  unsigned long long steps = 0;
  int bad = 0;
  for (int round = 0; round < rounds; ++round) {
    const int n = round % 10 == 9 ? kLarge : kSmall;
    for (int i = 0; i < n; ++i) numbers[i] = 1000 * round + i;
    CHECKED(cudaMemcpyAsync(data, numbers.data(), n * sizeof(*data), cudaMemcpyHostToDevice));
    for (unsigned& number : numbers) number = ~0U;  // it may be used again at once
    check<<<1, 64>>>(state, data, n, 1000 * round);
    for (int i = 0; i < kSteps; ++i) step<<<1, 1>>>(state, steps++);
    each[round] = {&calls, round};
    CHECKED(cudaLaunchHostFunc(nullptr, called, &each[round]));
    if (round % 3 == 0) {
      State now;
      CHECKED(cudaMemcpy(&now, state, sizeof(now), cudaMemcpyDeviceToHost));
      if (now.count != steps || calls.count != round + 1) ++bad;
    }
    if (round % 10 == 9) {
      CHECKED(cudaMemcpy(numbers.data(), data, n * sizeof(*data), cudaMemcpyDeviceToHost));
      for (int i = 0; i < n; ++i) bad += numbers[i] != 1000U * round + i;
    }
    const timespec pause{pause_ms / 1000, pause_ms % 1000 * 1'000'000L};
    if (pause_ms > 0) nanosleep(&pause, nullptr);
  }
  CHECKED(cudaDeviceSynchronize());
  State last;
  CHECKED(cudaMemcpy(&last, state, sizeof(last), cudaMemcpyDeviceToHost));
  std::printf("%llu steps of %llu, %d calls, faults: %llu %d %d\n", last.count, steps, calls.count,
              last.faults, calls.faults, bad);
  return app::finish("counter", last.count == steps && calls.count == rounds &&
                                    last.faults + calls.faults + bad == 0);
}
