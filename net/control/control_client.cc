// Starting the thread, waiting for its answer, ending it.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/control_client.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"
#include "base/quiet_thread.h"
#include "net/control/control_limits.h"
#include "net/control/control_thread.h"
#include "net/control/private_files.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/descriptor.h"

namespace vgpu::net {
namespace {

// What the caller and the thread share. Whoever is last frees it.
struct Shared {
  explicit Shared(ControlThread::Request asked) : request(std::move(asked)) {}
  ControlThread::Request request;
  int lifeline = -1;  // the thread's end
  std::mutex mutex;
  std::condition_variable changed;
  bool begun = false;  // under mutex, as all that follows
  bool private_files = false;
  bool done = false;
  ControlAnswer answer;
};

// For goodbyes: the one session that this process has (a process attaches once).
struct Held {
  std::mutex mutex;
  std::condition_variable ended;
  int lifeline = -1;  // the caller's end
  ino_t inode = 0;    // of it: the program may have closed it, and the number be another's
  pid_t owner = 0;
  bool over = true;
};
Held& held() {
  static Held* const only = new Held;  // never destroyed: threads may outlive static objects
  return *only;
}

ino_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

void begin(Shared* shared) {
  const bool log = log_enabled(LogLevel::kError);
  const int keep[] = {shared->lifeline, STDERR_FILENO};
  const bool own = take_private_files({keep, log ? size_t{2} : size_t{1}});
  const std::lock_guard hold(shared->mutex);
  shared->private_files = own;
  shared->begun = true;
  shared->changed.notify_all();
}

void* run(void* argument) {
  const std::shared_ptr<Shared> shared =
      *std::unique_ptr<std::shared_ptr<Shared>>(static_cast<std::shared_ptr<Shared>*>(argument));
  begin(shared.get());
  {
    ControlThread thread(std::move(shared->request));
    ControlAnswer answer = thread.exchange();
    const auto* reply = std::get_if<protocol::NetAttached>(&answer.message);
    const bool stays = answer.status.ok() && reply != nullptr;
    const protocol::NetAttached attached = stays ? *reply : protocol::NetAttached{};
    if (stays) {
      const std::lock_guard hold(held().mutex);
      held().over = false;
    }
    {
      const std::lock_guard hold(shared->mutex);
      shared->answer = std::move(answer);
      shared->done = true;
      shared->changed.notify_all();
    }
    if (stays) thread.stay(attached, shared->lifeline);
  }  // connections and libzmq's threads end here
  // Shut down rather than closed alone: a child may hold a copy.
  (void)::shutdown(shared->lifeline, SHUT_RDWR);
  ::close(shared->lifeline);
  const std::lock_guard hold(held().mutex);
  held().over = true;
  held().ended.notify_all();
  return nullptr;
}

// Detached, without signals. libzmq gives the process up when it gets no thread for itself, so that
// two more can be had is tried first.
bool start(std::shared_ptr<Shared>* shared) {
  const auto nothing = [](void*) -> void* { return nullptr; };
  const QuietScope quiet;
  pthread_t tried[2];
  int made = 0;
  while (made < 2 && ::pthread_create(&tried[made], nullptr, nothing, nullptr) == 0) ++made;
  for (int i = 0; i < made; ++i) ::pthread_join(tried[i], nullptr);
  return made == 2 && start_quiet_thread(run, shared) == 0;
}

ControlAnswer failure(StatusCode code, const std::string& text) {
  ControlAnswer answer;
  answer.status = Status(code, text);
  answer.cuda_error = protocol::kCudaNoDevice;
  return answer;
}

}  // namespace

ControlAnswer ask_server(const protocol::Address& address, ClientKeys keys,
                         const protocol::Message& request, int timeout_ms) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return failure(StatusCode::kSystem, "no descriptor left for a connection");
  }
  UniqueFd lifeline(ends[0]);
  auto shared = std::make_shared<Shared>(ControlThread::Request{
      address, std::move(keys), request, monotonic_ms() + static_cast<uint64_t>(timeout_ms)});
  shared->lifeline = ends[1];
  auto argument = std::make_unique<std::shared_ptr<Shared>>(shared);
  if (!start(argument.get())) {
    ::close(ends[1]);
    return failure(StatusCode::kResourceExhausted, "no thread left for a connection");
  }
  (void)argument.release();  // the thread's
  std::unique_lock hold(shared->mutex);
  shared->changed.wait(hold, [&] { return shared->begun; });
  // The thread has its copy then, and this one would only be in the program's way.
  if (shared->private_files) ::close(ends[1]);
  // A name server may take longer than the deadline; the thread then ends by itself.
  const auto done = [&] { return shared->done; };
  if (!shared->changed.wait_for(hold, std::chrono::milliseconds(timeout_ms + 500), done)) {
    return failure(StatusCode::kTimedOut, "no answer from " + address.endpoint() + " in time");
  }
  ControlAnswer answer = std::move(shared->answer);
  if (answer.status.ok() && std::get_if<protocol::NetAttached>(&answer.message) != nullptr) {
    const std::lock_guard goodbye(held().mutex);
    held().lifeline = lifeline.get();
    held().inode = inode_of(lifeline.get());
    held().owner = ::getpid();
    answer.lifeline = std::move(lifeline);
  }
  return answer;
}

// The thread has descriptors of its own: it is handed a copy.
void tie_to_lifeline(int lifeline, int liveness_fd) {
  (void)protocol::send_tagged_descriptor(lifeline, liveness_fd, 0);
}

Result<ClientKeys> find_keys(const protocol::Address& address) {
  ClientKeys keys;
  Result<std::string> server = known_server_key(address);
  if (!server.ok()) return server.status();
  keys.server = std::move(*server);
  const std::string path = guest_key_path();
  Result<KeyPair> own = read_key_file(path);
  if (!own.ok() && own.status().code() == StatusCode::kNotFound) {
    return Status(StatusCode::kNotFound, "no key of this guest at " + path +
                                             ": make one with vgpu key create, and let the "
                                             "server's administrator authorize it");
  }
  if (!own.ok()) return own.status();
  keys.own = std::move(*own);
  char derived[protocol::kKeyBytes + 1] = {};
  if (zmq_curve_public(derived, keys.own.secret_key.c_str()) != 0 ||
      keys.own.public_key != derived) {
    return Status(StatusCode::kInvalidArgument, path + ": its halves are not of one key");
  }
  return keys;
}

void say_goodbye() {
  Held& own = held();
  std::unique_lock hold(own.mutex, std::try_to_lock);
  if (!hold.owns_lock() || own.over || own.owner != ::getpid()) return;
  if (inode_of(own.lifeline) != own.inode) return;
  (void)::shutdown(own.lifeline, SHUT_RDWR);
  own.ended.wait_for(hold, std::chrono::milliseconds(kGoodbyeMs), [&] { return own.over; });
}

}  // namespace vgpu::net
