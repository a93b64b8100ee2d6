// Stands in for an MPS control daemon and its control program, where there is no NVIDIA driver.
// SPDX-License-Identifier: Apache-2.0

// With -f it is the daemon: it answers at a socket in CUDA_MPS_PIPE_DIRECTORY until it is told to
// quit. Without, it hands the commands on its standard input to that daemon, and prints the
// answers. Its one server is itself; its clients are the workers whose environment names its
// folder. Commands and what became of them stand in CUDA_MPS_LOG_DIRECTORY/heard.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace {

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

int connected_socket(bool listens) {
  const std::string path = setting("CUDA_MPS_PIPE_DIRECTORY") + "/control";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return -1;
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (listens) {
    unlink(path.c_str());
    return bind(fd, where, sizeof(address)) == 0 && listen(fd, 16) == 0 ? fd : -1;
  }
  return connect(fd, where, sizeof(address)) == 0 ? fd : -1;
}

// Everything until the other end says no more.
std::string read_all(int fd) {
  std::string all;
  char part[1024];
  for (ssize_t got; (got = read(fd, part, sizeof(part))) > 0;)
    all.append(part, static_cast<size_t>(got));
  return all;
}

bool is_worker_of_ours(const std::string& pid) {
  std::ifstream name("/proc/" + pid + "/comm");
  std::string comm;
  std::getline(name, comm);
  if (comm != "vgpu-worker") return false;
  std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
  const std::string environment((std::istreambuf_iterator<char>(file)), {});
  const std::string wanted = "CUDA_MPS_PIPE_DIRECTORY=" + setting("CUDA_MPS_PIPE_DIRECTORY");
  return (std::string(1, '\0') + environment).find('\0' + wanted + '\0') != std::string::npos;
}

class Daemon {
 public:
  std::string answer(const std::string& command) {
    std::istringstream words(command);
    std::string verb, server, client;
    words >> verb >> server >> client;
    heard(command);
    if (verb == "get_server_list") return std::to_string(getpid()) + "\n";
    if (server != std::to_string(getpid())) return "no such server\n";
    if (verb == "get_client_list") return clients();
    if (verb != "terminate_client") return "no such command\n";
    const bool lives = kill(std::atoi(client.c_str()), 0) == 0;
    heard(lives ? "lives " + client : "is gone " + client);
    // A file of this name: the client never goes from the list.
    if (access((setting("CUDA_MPS_LOG_DIRECTORY") + "/stubborn").c_str(), F_OK) != 0)
      gone_.insert(client);
    return "";
  }

 private:
  static void heard(const std::string& line) {
    std::ofstream(setting("CUDA_MPS_LOG_DIRECTORY") + "/heard", std::ios::app) << line << "\n";
  }
  std::string clients() const {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (std::atoi(pid.c_str()) > 1 && gone_.count(pid) == 0 && is_worker_of_ours(pid))
        all += pid + "\n";
    }
    return all;
  }

  std::set<std::string> gone_;
};

int serve() {
  const int listener = connected_socket(true);
  if (listener < 0) return 1;
  Daemon daemon;
  while (true) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    std::string command = read_all(connection);
    while (!command.empty() && command.back() == '\n') command.pop_back();
    const std::string text = command == "quit" ? "" : daemon.answer(command);
    (void)!write(connection, text.data(), text.size());
    close(connection);
    if (command == "quit") return 0;
  }
}

int ask() {
  const int daemon = connected_socket(false);
  if (daemon < 0) {
    std::puts("nobody answers there");
    return 1;
  }
  const std::string command = read_all(STDIN_FILENO);
  (void)!write(daemon, command.data(), command.size());
  shutdown(daemon, SHUT_WR);
  std::fputs(read_all(daemon).c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  return argc > 1 && std::string(argv[1]) == "-f" ? serve() : ask();
}
