// Starting and loading back ends.
// SPDX-License-Identifier: Apache-2.0
#include "backend.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "api/driver_loader.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace vgpu::conformance {
namespace {

constexpr uint64_t kServerStartNsMax = 20'000'000'000;
constexpr uint64_t kChildNsMax = 60'000'000'000;
constexpr int kPollMs = 2;

struct ServerState {
  pid_t pid = -1;
  pid_t second = -1;  // of back end router
  pid_t gate = -1;
  pid_t neighbour = -1;       // of back end packed
  pid_t vm = -1, agent = -1;  // of back end region
  std::string folder;
};
ServerState g_server;  // the suite's process owns at most one

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "conformance: %s\n", text.c_str());
  (void)tear_down_backend();
  std::exit(2);
}

std::string environment_text(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::string backend_name() {
  const std::string name = environment_text("VGPU_TEST_BACKEND");
  return name.empty() ? "direct" : name;
}

std::string library_path() {
  const std::string name = backend_name();
  if (name == "direct") return VGPU_SOFTGPU_LIBRARY;
  if (name == "loop") return VGPU_LOOP_LIBRARY;
  if (name == "shm" || name == "packed" || name == "fabric" || name == "region")
    return VGPU_GUEST_LIBRARY;
  if (name == "router") return VGPU_ROUTER_LIBRARY;
  if (name == "machine") return environment_text("VGPU_TEST_LIBRARY");
  if (name == "cuda") return "libcuda.so.1";
  die("VGPU_TEST_BACKEND must be direct, loop, shm, packed, fabric, region, router, machine or "
      "cuda, not " +
      name);
}

pid_t spawn(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return pid;
}

// Waits for the end of a child: its exit code, 128 + signal, or 124 after killing it at the limit.
int wait_for(pid_t pid, uint64_t limit_ns) {
  const uint64_t start = monotonic_ns();
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (monotonic_ns() - start > limit_ns) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return 124;
    }
    ::poll(nullptr, 0, kPollMs);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Until the program has made what it makes when it is ready.
void wait_until_there(const std::string& path, pid_t* pid, const std::string& program) {
  const uint64_t start = monotonic_ns();
  while (::access(path.c_str(), F_OK) != 0) {
    if (::waitpid(*pid, nullptr, WNOHANG) != 0) {
      *pid = -1;
      die(program + " ended before it was ready");
    }
    if (monotonic_ns() - start > kServerStartNsMax) die(program + " does not become ready");
    ::poll(nullptr, 0, kPollMs);
  }
}

void start_server(const std::vector<std::string>& more = {}) {
  std::array<char, 64> folder{"/tmp/vgpu-conformance-XXXXXX"};
  if (::mkdtemp(folder.data()) == nullptr) die("mkdtemp failed");
  g_server.folder = folder.data();
  const std::string socket = g_server.folder + "/vgpud.sock";
  const std::string address = "unix:" + socket;
  std::vector<std::string> words = {VGPU_VGPUD, "--listen", address, "--driver", "soft"};
  words.insert(words.end(), more.begin(), more.end());
  g_server.pid = spawn(words);
  wait_until_there(socket, &g_server.pid, "vgpud");
  ::setenv("VGPU_SERVER", address.c_str(), 1);
}

// A server that packs its guests, and one that is there when the suite's own comes.
void start_packing_server() {
  std::array<char, 64> file{"/tmp/vgpu-conformance-XXXXXX"};
  const UniqueFd config(::mkstemp(file.data()));
  constexpr std::string_view kProfile =
      "[profile.together]\nmode = \"packed\"\n"
      "[tenant.all]\nuids = [";
  const std::string text =
      std::string(kProfile) + std::to_string(::getuid()) + "]\nprofiles = [\"together\"]\n";
  if (!config.valid() || ::write(config.get(), text.data(), text.size()) < 0)
    die("no configuration");
  start_server({"--config", file.data()});
  const std::string ready = g_server.folder + "/neighbour";
  ::setenv("VGPU_TEST_NEIGHBOUR", ready.c_str(), 1);
  g_server.neighbour = spawn({"/proc/self/exe"});
  ::unsetenv("VGPU_TEST_NEIGHBOUR");
  wait_until_there(ready, &g_server.neighbour, "the neighbour");
  (void)::unlink(file.data());
}

// Another server, and guests have both.
void start_second_server() {
  const std::string socket = g_server.folder + "/second.sock";
  g_server.second = spawn({VGPU_VGPUD, "--listen", "unix:" + socket, "--driver", "soft"});
  wait_until_there(socket, &g_server.second, "the second vgpud");
  const std::string both = "unix:" + g_server.folder + "/vgpud.sock,unix:" + socket;
  ::setenv("VGPU_SERVER", both.c_str(), 1);
}

// What a remote guest needs beside a server: here without keys.
void start_gate() {
  const std::string socket = g_server.folder + "/gate.sock";
  g_server.gate =
      spawn({VGPU_PLAIN_GATE, "--listen", socket, "--server", g_server.folder + "/vgpud.sock"});
  wait_until_there(socket, &g_server.gate, "the gate");
  ::setenv("VGPU_SERVER", "tcp://127.0.0.1:1", 1);
  ::setenv("VGPU_NET_PLUGIN", VGPU_PLAIN_PLUGIN, 1);
  ::setenv("VGPU_TEST_RENDEZVOUS", socket.c_str(), 1);
}

// Between guests and that server: what stands between them when they are in a virtual machine.
void start_machine() {
  const std::string memory = g_server.folder + "/memory", socket = g_server.folder + "/agent.sock";
  g_server.vm = spawn({VGPU_VM, "--memory", memory, "--size", "256M", "--programs", "8"});
  wait_until_there(memory, &g_server.vm, "vgpu-vm");
  g_server.agent = spawn({VGPU_AGENT, "--region", "ivshmem:" + memory, "--listen", socket});
  wait_until_there(socket, &g_server.agent, "vgpu-agent");
  ::setenv("VGPU_SERVER", ("unix:" + socket).c_str(), 1);
}

void stop_machine() {
  for (pid_t* pid : {&g_server.agent, &g_server.vm}) {
    if (*pid <= 0) continue;
    ::kill(*pid, SIGTERM);
    (void)wait_for(*pid, kServerStartNsMax);
    *pid = -1;
  }
}

}  // namespace

void set_up_backend() {
  if (std::getenv("VGPU_TEST_CHILD") != nullptr) return;  // the parent has done it
  const std::string path = library_path();
  if (path.find('/') != std::string::npos && ::access(path.c_str(), R_OK) != 0) {
    die(path + " is not built");
  }
  const std::string name = backend_name();
  if (name == "shm" || name == "router" || name == "fabric" || name == "region") start_server();
  if (name == "packed") start_packing_server();
  if (name == "router") start_second_server();
  if (name == "fabric") start_gate();
  if (name == "region") start_machine();
  if (backend_name() == "loop") {
    ::setenv("VGPU_SERVER", "loop:", 1);
    ::setenv("VGPU_SOFT_DRIVER", VGPU_SOFTGPU_LIBRARY, 0);
  }
}

bool is_apart() {
  const std::string name = backend_name();
  return name == "fabric" || name == "region" || name == "machine";
}

int be_neighbour(const char* ready) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  const DriverTable& own = driver();
  const bool well = own.cuInit(0) == CUDA_SUCCESS && own.cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
                    own.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
                    own.cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                    own.cuMemAlloc_v2(&memory, 1 << 20) == CUDA_SUCCESS;
  if (!well) return 1;
  (void)UniqueFd(::open(ready, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  while (true) (void)::pause();
}

bool tear_down_backend() {
  bool well = true;
  if (g_server.neighbour > 0) {
    ::kill(g_server.neighbour, SIGKILL);
    (void)::waitpid(g_server.neighbour, nullptr, 0);
    g_server.neighbour = -1;
  }
  if (g_server.gate > 0) {
    ::kill(g_server.gate, SIGKILL);
    (void)::waitpid(g_server.gate, nullptr, 0);
    g_server.gate = -1;
  }
  stop_machine();
  if (g_server.second > 0) {
    ::kill(g_server.second, SIGTERM);
    well = wait_for(g_server.second, kServerStartNsMax) == 0;
    g_server.second = -1;
  }
  if (g_server.pid > 0) {
    const bool there =
        ::waitpid(g_server.pid, nullptr, WNOHANG) == 0;  // or it has ended before it was asked to
    if (!there) std::fprintf(stderr, "conformance: vgpud has ended on its own\n");
    if (there) ::kill(g_server.pid, SIGTERM);
    const int code = there ? wait_for(g_server.pid, kServerStartNsMax) : 0;
    if (code != 0) std::fprintf(stderr, "conformance: vgpud's end on SIGTERM: %d\n", code);
    well = well && there && code == 0;
    g_server.pid = -1;
  }
  if (!g_server.folder.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(g_server.folder, ignored);
    g_server.folder.clear();
  }
  return well;
}

const DriverTable& driver() {
  static const DriverTable* const table = [] {
    auto* made = new DriverTable;
    const char* error = load_driver_table(library_path().c_str(), made);
    if (error != nullptr) die(error);
    return made;
  }();
  return *table;
}

int run_in_fresh_process(const std::string& test) {
  ::setenv("VGPU_TEST_CHILD", "1", 1);
  const pid_t pid = spawn({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                           "--gtest_filter=" + test, "--gtest_brief=1"});
  ::unsetenv("VGPU_TEST_CHILD");
  return pid < 0 ? 127 : wait_for(pid, kChildNsMax);
}

std::string result_name(CUresult result) {
  const char* name = nullptr;
  if (driver().cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return "error " + std::to_string(static_cast<int>(result));
  }
  return name;
}

}  // namespace vgpu::conformance
