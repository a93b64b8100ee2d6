// A server that packs guests, and guests of it on the software GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_LIFECYCLE_PACKED_FIXTURE_H_
#define VGPU_TESTS_LIFECYCLE_PACKED_FIXTURE_H_

#include <signal.h>

#include <memory>
#include <string>

#include "tests/lifecycle/softgpu_code.h"
#include "tests/lifecycle/tenants_fixture.h"

namespace vgpu::testing {

class Packed : public Tenants, protected SoftGpuCode {
 protected:
  static constexpr uint64_t kGrant = 64 * kMiB;
  static constexpr uint8_t kMode = 2;

  struct Member {
    protocol::Attachment attachment;
    std::unique_ptr<Guest> guest;
    uint64_t memory = 0;
    pid_t worker() const { return attachment.reply.server_pid; }
    uint64_t session() const { return attachment.reply.session; }
    int sticky() const { return guest->channel().semaphores().sticky(0); }
    void leave() {
      guest.reset();
      attachment.channel.reset();
    }
  };

  Packed() { driver_ = SOFTGPU; }
  void SetUp() override {
    start("[tenant.lab]\n" + mine() + "profiles = [\"plain\", \"together\"]\n", R"(
[profile.plain]
memory = "64M"
[profile.together]
mode = "packed"
memory = "64M"
)");
  }
  // With a context, memory and code; without a guest when it failed.
  Member add(const std::string& profile = "together") {
    Member member;
    member.attachment = attach(profile);
    EXPECT_TRUE(member.attachment.status.ok()) << member.attachment.status.to_string();
    if (!member.attachment.status.ok()) return member;
    member.guest = std::make_unique<Guest>(member.attachment.channel.get());
    member.memory = prepare(member.guest.get(), member.attachment.reply);
    EXPECT_NE(member.memory, 0u);
    return member;
  }
  // It computes, and what it computes is right.
  void expect_works(Member* member) {
    member->guest->write_inline(member->memory, std::string("\3\0\0\0", 4));
    launch(member->guest.get(), "double_all", member->memory);
    EXPECT_EQ(member->guest->read(member->memory, 4), std::string("\6\0\0\0", 4));
  }
  void make_stream(Member* member, uint64_t index, uint32_t flags) {
    wire::StreamCreateArgs args;
    args.stream = stream_id(index);
    args.flags = flags;
    ASSERT_EQ(member->guest->call(Op::kStreamCreate, args), 0);
  }
  int query(Member* member, uint64_t stream) {
    wire::StreamQueryArgs args;
    args.stream = stream;
    return member->guest->call(Op::kStreamQuery, args);
  }
  size_t guests() const { return server_->info()->guests.size(); }
  static bool gone(pid_t pid) { return kill(pid, 0) != 0; }
};

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_LIFECYCLE_PACKED_FIXTURE_H_
