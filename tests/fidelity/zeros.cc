// Every exported function, called with zeros for all arguments: it may refuse, it may not kill.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "tests/conformance/backend.h"

namespace vgpu::fidelity {
namespace {

constexpr int kAnswerMsMax = 30'000;
constexpr int kRefused = 3;  // exit code: not even the first context was there

struct Name {
  const char* base;
  int introduced;
  bool per_thread;
  const char* symbol;
};
constexpr Name kNames[] = {
#include "symbol_names.inc"
};

// The library that the table was loaded from.
void* symbol(const char* name) {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(conformance::driver().cuInit), &info) == 0) return nullptr;
  void* library = ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

bool context_works() {
  const DriverTable& cu = conformance::driver();
  CUcontext context = nullptr;
  return cu.cuInit(0) == CUDA_SUCCESS && cu.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
         cu.cuCtxSetCurrent(context) == CUDA_SUCCESS && cu.cuCtxSynchronize() == CUDA_SUCCESS;
}

// A capture that a row has begun in its thread's default stream: waiting is not allowed meanwhile.
void end_capture() {
  CUgraph graph = nullptr;
  if (conformance::driver().cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph) == CUDA_SUCCESS)
    (void)conformance::driver().cuGraphDestroy(graph);
}

// More zeros than any function has arguments, in registers and on the stack.
using Function = CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                              uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

[[noreturn]] void child(int first, int out) {
  if (!context_works()) ::_exit(kRefused);
  for (int i = first; i < static_cast<int>(std::size(kNames)); ++i) {
    const auto function = reinterpret_cast<Function>(symbol(kNames[i].symbol));
    if (::write(out, &i, sizeof(i)) != sizeof(i)) ::_exit(4);
    if (function == nullptr) ::_exit(5);
    const CUresult result = function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const char* name = nullptr;
    if (conformance::driver().cuGetErrorName(result, &name) != CUDA_SUCCESS) ::_exit(6);
    end_capture();
    if (!context_works()) ::_exit(7);
  }
  ::_exit(0);
}

// Runs from `first` on; returns the row at which the child ended badly, or the end.
int run_from(int first) {
  int ends[2];
  if (::pipe(ends) != 0) return first;
  const pid_t pid = ::fork();
  if (pid == 0) {
    char text[32];
    std::snprintf(text, sizeof(text), "%d:%d", first, ends[1]);
    ::close(ends[0]);
    ::setenv("VGPU_TEST_CHILD", "1", 1);
    ::execl("/proc/self/exe", "vgpu_zeros", text, nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  int at = first;
  pollfd entry{ends[0], POLLIN, 0};
  while (::poll(&entry, 1, kAnswerMsMax) > 0 && ::read(ends[0], &at, sizeof(at)) == sizeof(at)) {
  }
  ::close(ends[0]);
  ::kill(pid, SIGKILL);  // no effect unless it hangs
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return static_cast<int>(std::size(kNames));
  std::printf("%s: %s %d\n", kNames[at].symbol, WIFEXITED(status) ? "exit code" : "signal",
              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return at;
}

}  // namespace
}  // namespace vgpu::fidelity

int main(int argc, char** argv) {
  namespace fidelity = vgpu::fidelity;
  int first = 0, out = -1;
  if (argc == 2 && std::sscanf(argv[1], "%d:%d", &first, &out) == 2) fidelity::child(first, out);
  vgpu::conformance::set_up_backend();
  const int all = static_cast<int>(std::size(fidelity::kNames));
  int faults = 0;
  for (int i = 0; i < all; ++i) {
    i = fidelity::run_from(i);
    if (i < all) ++faults;
  }
  if (!vgpu::conformance::tear_down_backend()) ++faults;
  std::printf("%d functions, %d faults\n", all, faults);
  return faults == 0 ? 0 : 1;
}
