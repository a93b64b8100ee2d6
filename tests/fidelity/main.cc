// Runs the rows of one family, or of all, against a back end and says what differed.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "table.h"
#include "tests/conformance/backend.h"

namespace vgpu::fidelity {
namespace {

constexpr int kChildMsMax = 60'000;  // without news
constexpr int kDamaged = 5;          // exit code of a child whose context is no longer fit for rows
constexpr int kCrashed = -1, kHung = -2, kNotRun = -3, kLeftOver = -4;

// What a child writes for each row it has run.
struct News {
  int32_t row;
  int32_t result;
};

std::string code_name(int code) {
  if (code == kCrashed) return "the process died";
  if (code == kHung) return "no answer";
  if (code == kNotRun) return "not run";
  if (code == kLeftOver) return "the expected code, but the context was damaged";
  std::string name = conformance::result_name(static_cast<CUresult>(code));
  return name.starts_with("CUDA_") ? name.substr(5) : name;
}

bool wanted_here(const Row& row) {
  const char* backend = std::getenv("VGPU_TEST_BACKEND");
  return row.source != kOurs || backend == nullptr || std::strcmp(backend, "cuda") != 0;
}

// A wrong call leaves the context as it was: current, and without an error.
bool undamaged(const World& world) {
  CUcontext current = nullptr;
  return world.cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == world.context &&
         world.cu->cuCtxSynchronize() == CUDA_SUCCESS;
}

// The child's part: the rows of one state from `first` on. Never returns.
[[noreturn]] void run_rows(const Family& family, State state, int first, int out) {
  World world;
  world.cu = &conformance::driver();
  if (const char* problem = enter_state(state, &world)) {
    std::fprintf(stderr, "%s: %s\n", state_name(state), problem);
    ::_exit(2);
  }
  if (state == kForked) {
    const pid_t child = ::fork();
    if (child != 0) {
      int status = 0;
      ::waitpid(child, &status, 0);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
  }
  for (int i = first; i < static_cast<int>(family.rows.size()); ++i) {
    const Row& row = family.rows[static_cast<size_t>(i)];
    if (row.state != state || !wanted_here(row)) continue;
    News news{i, row.run(world)};
    if (state == kReady && news.result == row.want && !undamaged(world)) news.result = kLeftOver;
    if (::write(out, &news, sizeof(news)) != sizeof(news)) ::_exit(4);
    if (news.result == kLeftOver) ::_exit(kDamaged);
  }
  ::_exit(0);
}

struct Child {
  pid_t pid;
  int news;
};

Child start_child(const Family& family, State state, int first) {
  int ends[2];
  if (::pipe(ends) != 0) return {-1, -1};
  const std::string text = std::to_string(static_cast<int>(state)) + ":" + std::to_string(first) +
                           ":" + std::to_string(ends[1]);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::setenv("VGPU_TEST_CHILD", "1", 1);
    ::execl("/proc/self/exe", "vgpu_fidelity", "--child", family.name, text.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

// The first row of the state from `from` on; rows.size() when there is none.
int next_row(const Family& family, State state, int from) {
  const int end = static_cast<int>(family.rows.size());
  for (; from < end; ++from) {
    const Row& row = family.rows[static_cast<size_t>(from)];
    if (row.state == state && wanted_here(row)) break;
  }
  return from;
}

// Takes the child's news until it ends; returns the row to go on with. *end says how it ended when
// it did not by itself: kCrashed or kHung.
int follow(const Child& child, int next, std::vector<int>* results, int* end) {
  News news;
  while (true) {
    pollfd entry{child.news, POLLIN, 0};
    const int ready = ::poll(&entry, 1, kChildMsMax);
    if (ready < 0 && errno == EINTR) continue;
    *end = ready > 0 ? kCrashed : kHung;
    if (ready <= 0 || ::read(child.news, &news, sizeof(news)) != sizeof(news)) return next;
    (*results)[static_cast<size_t>(news.row)] = news.result;
    next = news.row + 1;
  }
}

// Runs one state's rows; whoever kills the process is remembered, and the rest goes on after it.
void run_state(const Family& family, State state, std::vector<int>* results) {
  const int end = static_cast<int>(family.rows.size());
  int next = 0;
  while ((next = next_row(family, state, next)) != end) {
    const Child child = start_child(family, state, next);
    int how = kCrashed;
    next = follow(child, next, results, &how);
    ::close(child.news);
    if (how == kHung) ::kill(child.pid, SIGKILL);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kDamaged) continue;  // go on in a fresh process
    next = next_row(family, state, next);
    if (next != end) (*results)[static_cast<size_t>(next++)] = how;
  }
}

// Prints what differed; returns how many did.
int report(const Family& family, const std::vector<int>& results, bool all) {
  constexpr const char* kSources[] = {"documented", "confirmed", "ours"};
  int different = 0, skipped = 0;
  for (size_t i = 0; i < family.rows.size(); ++i) {
    const Row& row = family.rows[i];
    if (!wanted_here(row)) {
      ++skipped;
      continue;
    }
    const bool same = results[i] == row.want;
    different += same ? 0 : 1;
    if (same && !all) continue;
    std::printf("%s [%s] %s: expected %s (%s), got %s\n", family.name, state_name(row.state),
                row.call, code_name(row.want).c_str(), kSources[row.source],
                same ? "it" : code_name(results[i]).c_str());
  }
  std::printf("%s: %zu rows, %d different, %d left out\n", family.name, family.rows.size(),
              different, skipped);
  return different;
}

const Family* find_family(const char* name) {
  for (const Family& family : families()) {
    if (std::strcmp(family.name, name) == 0) return &family;
  }
  return nullptr;
}

int run(const char* only, bool all) {
  conformance::set_up_backend();
  int different = 0;
  size_t rows = 0;
  for (const Family& family : families()) {
    if (only != nullptr && std::strcmp(family.name, only) != 0) continue;
    std::vector<int> results(family.rows.size(), kNotRun);
    for (int state = 0; state < kStates; ++state) {
      run_state(family, static_cast<State>(state), &results);
    }
    different += report(family, results, all);
    rows += family.rows.size();
  }
  if (only == nullptr) std::printf("all: %zu rows, %d different\n", rows, different);
  const bool ended_well = conformance::tear_down_backend();
  return ended_well && different == 0 && rows != 0 ? 0 : 1;
}

}  // namespace
}  // namespace vgpu::fidelity

// vgpu_fidelity [--all] [FAMILY]; the back end is VGPU_TEST_BACKEND. vgpu_fidelity --rows: whether
// the tables have all that they are to have.
int main(int argc, char** argv) {
  namespace fidelity = vgpu::fidelity;
  if (argc == 4 && std::strcmp(argv[1], "--child") == 0) {
    int state = 0, first = 0, out = -1;
    const fidelity::Family* family = fidelity::find_family(argv[2]);
    if (family == nullptr || std::sscanf(argv[3], "%d:%d:%d", &state, &first, &out) != 3) return 2;
    fidelity::run_rows(*family, static_cast<fidelity::State>(state), first, out);
  }
  constexpr size_t kRowsMin = 500;
  if (argc == 2 && std::strcmp(argv[1], "--rows") == 0) {
    size_t rows = 0, sources[3] = {};
    for (const fidelity::Family& family : fidelity::families()) {
      rows += family.rows.size();
      for (const fidelity::Row& row : family.rows) ++sources[row.source];
    }
    std::printf("%zu rows: %zu documented, %zu confirmed, %zu ours\n", rows, sources[0], sources[1],
                sources[2]);
    return sources[0] + sources[1] >= kRowsMin ? 0 : 1;
  }
  const char* only = nullptr;
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all") == 0) {
      all = true;
    } else if (fidelity::find_family(argv[i]) != nullptr) {
      only = argv[i];
    } else {
      std::fprintf(stderr, "usage: vgpu_fidelity [--all] [FAMILY]\n");
      return 2;
    }
  }
  return fidelity::run(only, all);
}
