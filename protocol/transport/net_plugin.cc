// Loading the plug-in, and putting its plain answers into our own types.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/net_plugin.h"

#include <dlfcn.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "base/env.h"

namespace vgpu::protocol {
namespace {

// Asks the plug-in's functions.
class PluginMover final : public Mover {
 public:
  explicit PluginMover(const NetMover& mover) : mover_(mover) {}

  void published() override { mover_.published(mover_.owner); }
  void expect(uint32_t slot, uint64_t offset, uint64_t bytes) override {
    mover_.expect(mover_.owner, slot, offset, bytes);
  }
  void stage(uint64_t offset, std::span<const std::byte> from) override {
    mover_.stage(mover_.owner, offset, from.data(), from.size());
  }
  bool help(bool (*ready)(void*), void* argument) override {
    return mover_.help(mover_.owner, ready, argument);
  }
  void slept() override { mover_.slept(mover_.owner); }

 private:
  const NetMover mover_;
};

// The guest's end of a channel whose memory and connection the plug-in owns.
class PluginTransport final : public Transport {
 public:
  PluginTransport(const NetChannel& channel, const ChannelSizes& sizes)
      : channel_(channel), liveness_(channel.liveness_fd), sizes_(sizes), mover_(channel.mover) {}

  std::span<std::byte> memory() const override {
    return {static_cast<std::byte*>(channel_.memory), channel_.bytes};
  }
  const ChannelSizes& sizes() const override { return sizes_; }
  int liveness_fd() const override { return liveness_.get(); }
  bool same_address_space() const override { return false; }
  Mover* mover() override { return channel_.mover.owner != nullptr ? &mover_ : nullptr; }
  Status send_descriptor(int fd, uint64_t tag) override {
    const int32_t error = channel_.send_descriptor(channel_.owner, fd, tag);
    return error == 0 ? ok_status() : Status::from_errno(error, "memory for the server");
  }
  Result<std::pair<UniqueFd, uint64_t>> receive_descriptor(int) override {
    return Status(StatusCode::kNotSupported, "no descriptors come over a network");
  }

 private:
  const NetChannel channel_;
  const UniqueFd liveness_;
  const ChannelSizes sizes_;
  PluginMover mover_;
};

Mover& mover_of(void* owner) { return *static_cast<Mover*>(owner); }

struct Said {
  std::string text;
  std::vector<uint8_t> message;
};

NetAnswer answer_into(Said* said) {
  NetAnswer answer;
  answer.sink = said;
  answer.put_text = [](void* sink, const char* text, size_t bytes) {
    static_cast<Said*>(sink)->text.assign(text, bytes);
  };
  answer.put_message = [](void* sink, const uint8_t* message, size_t bytes) {
    static_cast<Said*>(sink)->message.assign(message, message + bytes);
  };
  return answer;
}

NetRequest request_of(const std::string& address, const std::vector<uint8_t>& message,
                      int timeout_ms) {
  NetRequest request;
  request.address = address.c_str();
  request.message = message.data();
  request.message_bytes = message.size();
  request.timeout_ms = timeout_ms;
  return request;
}

Attachment failed(Status status, int32_t cuda_error) {
  Attachment attachment;
  attachment.status = std::move(status);
  attachment.cuda_error = cuda_error;
  return attachment;
}

}  // namespace

NetChannel net_channel(std::unique_ptr<Transport> transport) {
  NetChannel channel;
  channel.memory = transport->memory().data();
  channel.bytes = transport->memory().size();
  channel.liveness_fd = transport->liveness_fd();
  channel.owner = transport.get();
  channel.send_descriptor = [](void* owner, int32_t fd, uint64_t tag) -> int32_t {
    return static_cast<Transport*>(owner)->send_descriptor(fd, tag).ok() ? 0 : ENOTSUP;
  };
  if (Mover* mover = transport->mover(); mover != nullptr) {
    channel.mover.owner = mover;
    channel.mover.published = [](void* owner) { mover_of(owner).published(); };
    channel.mover.expect = [](void* owner, uint32_t slot, uint64_t offset, uint64_t bytes) {
      mover_of(owner).expect(slot, offset, bytes);
    };
    channel.mover.stage = [](void* owner, uint64_t offset, const void* from, uint64_t bytes) {
      mover_of(owner).stage(offset, {static_cast<const std::byte*>(from), bytes});
    };
    channel.mover.help = [](void* owner, bool (*ready)(void*), void* argument) {
      return mover_of(owner).help(ready, argument);
    };
    channel.mover.slept = [](void* owner) { mover_of(owner).slept(); };
  }
  (void)transport.release();  // threads may be anywhere in it when the process ends
  return channel;
}

std::string net_plugin_path() {
  if (const auto given = env_text("VGPU_NET_PLUGIN")) return std::string(*given);
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&net_plugin_path), &here) == 0 ||
      here.dli_fname == nullptr) {
    return kNetPluginFile;
  }
  const std::string whole(here.dli_fname);
  const size_t slash = whole.rfind('/');
  return (slash == std::string::npos ? "" : whole.substr(0, slash + 1)) + kNetPluginFile;
}

Result<const NetPlugin*> load_net_plugin(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return Status(StatusCode::kUnavailable, std::string("servers on a network need ") +
                                                kNetPluginFile + ": " +
                                                (reason != nullptr ? reason : path));
  }
  const auto entry = reinterpret_cast<NetPluginEntry>(::dlsym(library, kNetPluginEntry));
  const NetPlugin* plugin = entry != nullptr ? entry() : nullptr;
  if (plugin == nullptr || plugin->version != kNetPluginVersion) {
    return Status(StatusCode::kMismatch, path + " is of another version of vGPU");
  }
  return plugin;
}

Attachment attach_by_plugin(const NetPlugin& plugin, const Address& address, const Hello& hello,
                            int timeout_ms) {
  const std::vector<uint8_t> message = encode_message(hello);
  const std::string place = address.to_string();
  Said said;
  NetAnswer answer = answer_into(&said);
  const NetRequest request = request_of(place, message, timeout_ms);
  plugin.attach(&request, &answer);
  const auto code = static_cast<StatusCode>(answer.status);
  if (code != StatusCode::kOk) return failed(Status(code, said.text), answer.cuda_error);
  Result<Message> decoded = decode_message(said.message);
  if (!decoded.ok()) return failed(decoded.status(), kCudaNoDevice);
  auto* reply = std::get_if<HelloReply>(&*decoded);
  if (reply == nullptr || answer.channel.memory == nullptr) {
    return failed(Status(StatusCode::kInternal, "the plug-in gave no channel"), kCudaNoDevice);
  }
  Result<std::unique_ptr<GuestChannel>> channel =
      GuestChannel::open(std::make_unique<PluginTransport>(answer.channel, reply->sizes));
  if (!channel.ok()) return failed(channel.status(), kCudaNoDevice);
  Attachment attachment;
  attachment.reply = std::move(*reply);
  attachment.channel = std::move(channel).value();
  return attachment;
}

Result<Message> ask_by_plugin(const NetPlugin& plugin, const Address& address,
                              const Message& question, int timeout_ms) {
  const std::vector<uint8_t> message = encode_message(question);
  const std::string place = address.to_string();
  Said said;
  NetAnswer answer = answer_into(&said);
  const NetRequest request = request_of(place, message, timeout_ms);
  plugin.ask(&request, &answer);
  const auto code = static_cast<StatusCode>(answer.status);
  if (code != StatusCode::kOk) return Status(code, said.text);
  return decode_message(said.message);
}

}  // namespace vgpu::protocol
