// A short run of the protocol's fuzz engines with fixed seeds: what every build does.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "protocol/mailbox/layout.h"
#include "protocol/ring/record.h"
#include "tests/fuzz/protocol_script.h"

namespace vgpu::protocol {
namespace {

// Mostly an honest guest's steps (header, tail, peek: 0, 2, 5 of the engine), now and then any
// other, with random operands.
std::vector<uint8_t> random_script(std::mt19937_64* random) {
  static constexpr uint8_t kHonest[] = {0, 0, 2, 5};
  std::vector<uint8_t> script;
  for (uint64_t steps = 1 + (*random)() % 40; steps != 0; --steps) {
    const uint8_t step = static_cast<uint8_t>((*random)());
    script.push_back((*random)() % 16 == 0 ? step : kHonest[step % 4]);
    const size_t operand_bytes = script.back() % 6 == 0 ? sizeof(RecordHeader) + 1 : 0;
    for (size_t i = 0; i < operand_bytes; ++i) script.push_back(static_cast<uint8_t>((*random)()));
  }
  return script;
}

TEST(RingFuzz, RandomScripts) {
  std::mt19937_64 random(1);
  uint64_t records = 0;
  for (int i = 0; i < 20'000; ++i) records += run_ring_script(random_script(&random));
  EXPECT_GT(records, 1'000u);  // the scripts reach beyond the first check
}

// A piece of mail that a machine might send, and a tail that fits it, more or less.
std::vector<uint8_t> random_mail(std::mt19937_64* random) {
  const std::vector<std::vector<uint8_t>> seeds = control_seeds();
  const std::vector<uint8_t>& said = seeds[(*random)() % seeds.size()];
  MailHeader header{static_cast<uint32_t>(said.size()), 1, 0, 0};
  std::vector<uint8_t> mail(sizeof(header));
  std::memcpy(mail.data(), &header, sizeof(header));
  mail.insert(mail.end(), said.begin(), said.end());
  mail.resize((mail.size() + 15) / 16 * 16);
  const auto tail = static_cast<uint32_t>(mail.size());
  const auto bytes = static_cast<uint16_t>(mail.size());
  std::vector<uint8_t> script(sizeof(tail) + sizeof(bytes));
  std::memcpy(script.data(), &tail, sizeof(tail));
  std::memcpy(script.data() + sizeof(tail), &bytes, sizeof(bytes));
  script.insert(script.end(), mail.begin(), mail.end());
  for (uint64_t flips = (*random)() % 4; flips != 0; --flips)
    script[(*random)() % (flips == 3 ? 16 : script.size())] = static_cast<uint8_t>((*random)());
  return script;
}

TEST(MailFuzz, MutationsOfRealMail) {
  std::mt19937_64 random(3);
  uint64_t believed = 0;
  for (int i = 0; i < 20'000; ++i) believed += run_mail_script(random_mail(&random));
  EXPECT_GT(believed, 5'000u);
  EXPECT_LT(believed, 20'000u);
}

TEST(ControlFuzz, MutationsOfRealMessages) {
  const std::vector<std::vector<uint8_t>> seeds = control_seeds();
  std::mt19937_64 random(2);
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::vector<uint8_t> bytes = seeds[random() % seeds.size()];
    for (uint64_t flips = random() % 4; flips != 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    accepted += run_control_script(bytes) ? 1 : 0;
  }
  EXPECT_GT(accepted, 10'000);
  EXPECT_LT(accepted, 95'000);
}

}  // namespace
}  // namespace vgpu::protocol
