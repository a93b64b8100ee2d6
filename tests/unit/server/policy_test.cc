// Whose guest somebody is, and what it may have.
// SPDX-License-Identifier: Apache-2.0
#include "server/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/dominant_share.h"

namespace vgpu::server {
namespace {

using scheduler::PriorityClass;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr char kTokenA[] = "aaaaaaaaaaaaaaaa", kTokenB[] = "bbbbbbbbbbbbbbbb";

Profile profile_of(uint64_t bytes, uint32_t weight) {
  Profile profile;
  profile.memory_bytes = bytes;
  profile.share.weight = weight;
  return profile;
}

Tenant tenant_of(const std::string& name, std::vector<uid_t> uids, std::vector<gid_t> gids = {},
                 const std::string& token = "") {
  Tenant tenant;
  tenant.name = name;
  tenant.uids = std::move(uids);
  tenant.gids = std::move(gids);
  tenant.token = token;
  return tenant;
}

PeerIdentity user(uid_t uid, std::vector<gid_t> gids = {}) { return {uid, std::move(gids), false}; }

Policy policy_of(std::vector<Tenant> tenants, std::map<std::string, Profile> profiles = {}) {
  Result<Policy> made = Policy::make(std::move(profiles), std::move(tenants));
  EXPECT_TRUE(made.ok()) << made.status().text();
  return made.ok() ? *made : Policy();
}

std::string name_of(const Result<const Tenant*>& tenant) {
  return tenant.ok() ? (*tenant)->name : "refused: " + tenant.status().text();
}

TEST(Policy, WithoutConfigurationEverybodyIsOneTenant) {
  const Policy policy;
  EXPECT_FALSE(policy.divides());
  const auto tenant = policy.identify(user(4711), "");
  ASSERT_TRUE(tenant.ok());
  const auto terms = policy.terms(**tenant, "", {}, false);
  ASSERT_TRUE(terms.ok());
  EXPECT_EQ(terms->tenant, "everybody");
  EXPECT_EQ(terms->profile, "default");
  EXPECT_EQ(terms->memory_bytes, 0U) << "the server's default";
  EXPECT_EQ(terms->share, scheduler::Share());
  EXPECT_EQ(terms->limits, protocol::GuestLimits());
}

TEST(Policy, WithoutConfigurationOnlyTheServersUserMayHaveMoreThanOthers) {
  const Policy policy;
  const Tenant& everybody = policy.tenants()[0];
  const GuestAsk more{8 * kGiB, 300, 0, 1 + static_cast<uint32_t>(PriorityClass::kSystem)};
  const auto trusted = policy.terms(everybody, "", more, true);
  ASSERT_TRUE(trusted.ok());
  EXPECT_EQ(trusted->share.weight, 300U);
  EXPECT_EQ(trusted->share.priority, PriorityClass::kSystem);
  EXPECT_EQ(policy.terms(everybody, "", more, false).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_FALSE(policy.terms(everybody, "", {0, 0, 0, 1}, false).ok());
  EXPECT_TRUE(policy.terms(everybody, "", {0, 50, 100, 4}, false).ok()) << "less is always given";
}

TEST(Policy, UsersGoBeforeGroupsAndStrangersAreRefused) {
  const Policy policy =
      policy_of({tenant_of("group", {}, {100}), tenant_of("user", {1000}), tenant_of("two", {7})});
  EXPECT_EQ(name_of(policy.identify(user(1000, {100}), "")), "user");
  EXPECT_EQ(name_of(policy.identify(user(1001, {5, 100}), "")), "group");
  EXPECT_EQ(name_of(policy.identify(user(7), "")), "two");
  const auto stranger = policy.identify(user(8, {9}), "");
  EXPECT_EQ(stranger.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(stranger.status().text(), HasSubstr("user 8"));
  EXPECT_FALSE(policy.identify({0, {0}, true}, "").ok()) << "root is no tenant either";
}

TEST(Policy, TokensTellTenantsOfOneUserApart) {
  const Policy policy =
      policy_of({tenant_of("a", {1000}, {}, kTokenA), tenant_of("b", {1000}, {}, kTokenB),
                 tenant_of("anyone", {}, {}, "cccccccccccccccc")});
  EXPECT_EQ(name_of(policy.identify(user(1000), kTokenA)), "a");
  EXPECT_EQ(name_of(policy.identify(user(1000), kTokenB)), "b");
  EXPECT_EQ(name_of(policy.identify(user(5), "cccccccccccccccc")), "anyone");
  EXPECT_THAT(name_of(policy.identify(user(1000), "")), HasSubstr("needs a token"));
  EXPECT_THAT(name_of(policy.identify(user(1001), kTokenA)), HasSubstr("not for user 1001"));
  for (const char* wrong : {"aaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa"}) {
    const std::string said = name_of(policy.identify(user(1000), wrong));
    EXPECT_THAT(said, HasSubstr("none of this server's"));
    EXPECT_THAT(said, Not(HasSubstr(wrong))) << "a token is never said";
  }
}

TEST(Policy, WhatDoesNotFitTogetherIsNamed) {
  const auto fault = [](std::vector<Tenant> tenants, std::map<std::string, Profile> profiles = {}) {
    const Result<Policy> made = Policy::make(std::move(profiles), std::move(tenants));
    return made.ok() ? std::string("good") : made.status().text();
  };
  EXPECT_THAT(fault({tenant_of("a", {1}), tenant_of("b", {1})}), HasSubstr("need tokens"));
  EXPECT_THAT(fault({tenant_of("a", {}, {2}), tenant_of("b", {}, {2})}), HasSubstr("group 2"));
  EXPECT_THAT(fault({tenant_of("a", {}, {}, kTokenA), tenant_of("b", {}, {}, kTokenA)}),
              HasSubstr("the token of another"));
  Tenant lost = tenant_of("a", {1});
  lost.profiles = {"none"};
  EXPECT_THAT(fault({lost}), HasSubstr("'none'"));
  EXPECT_EQ(fault({tenant_of("a", {1}, {}, kTokenA), tenant_of("b", {1})}), "good");
}

TEST(Policy, ATenantThatOnlyHasKeysWantsANetwork) {
  const Policy policy = policy_of({tenant_of("local", {1}), tenant_of("remote", {})});
  EXPECT_THAT(policy.check_ways_in(false).text(), HasSubstr("tenant 'remote'"));
  EXPECT_THAT(policy.check_ways_in(false).text(), HasSubstr("nobody can be of it"));
  EXPECT_TRUE(policy.check_ways_in(true).ok());
  EXPECT_FALSE(policy.identify(user(0), "").ok()) << "it is nobody's of this host";
  EXPECT_FALSE(policy.identify({static_cast<uid_t>(-1), {}, false}, "").ok());
  ASSERT_NE(policy.tenant("remote"), nullptr);
  EXPECT_TRUE(Policy().check_ways_in(false).ok()) << "without tenants everybody is one";
}

TEST(Policy, AProfileGivesAndBounds) {
  Tenant tenant = tenant_of("a", {1});
  tenant.profiles = {"small"};
  tenant.memory_bytes = 6 * kGiB;
  tenant.guests_max = 3;
  Profile small = profile_of(2 * kGiB, 50);
  small.share.cap_permille = 300;
  small.share.priority = PriorityClass::kNormal;
  const Policy policy = policy_of({tenant}, {{"small", small}, {"large", profile_of(kGiB, 1)}});
  const Tenant& a = policy.tenants()[0];
  const auto usual = policy.terms(a, "", {}, true);
  ASSERT_TRUE(usual.ok());
  EXPECT_EQ(usual->memory_bytes, 2 * kGiB);
  EXPECT_EQ(usual->share.weight, 50U);
  EXPECT_EQ(usual->share.cap_permille, 300U);
  EXPECT_EQ(usual->tenant_memory_bytes, 6 * kGiB);
  EXPECT_EQ(usual->tenant_guests_max, 3U);
  const auto less = policy.terms(a, "small", {kGiB, 10, 100, 4}, false);
  ASSERT_TRUE(less.ok());
  EXPECT_EQ(less->memory_bytes, kGiB);
  EXPECT_EQ(less->share, (scheduler::Share{10, PriorityClass::kSpot, 100}));
  for (const GuestAsk& more : {GuestAsk{2 * kGiB + 1, 0, 0, 0}, GuestAsk{0, 51, 0, 0},
                               GuestAsk{0, 0, 301, 0}, GuestAsk{0, 0, 0, 2}}) {
    const auto refused = policy.terms(a, "small", more, true);
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(refused.status().text(), HasSubstr("small"));
  }
  EXPECT_THAT(policy.terms(a, "large", {}, true).status().text(), HasSubstr("but: small"));
  EXPECT_FALSE(policy.terms(a, "", {0, 10'001, 0, 0}, true).ok());
  EXPECT_FALSE(policy.terms(a, "", {0, 0, 1001, 0}, true).ok());
  EXPECT_FALSE(policy.terms(a, "", {0, 0, 0, 5}, true).ok());
}

TEST(Policy, TheProfileCalledDefaultIsTheDefault) {
  const Policy policy =
      policy_of({tenant_of("a", {1})}, {{"a", profile_of(1, 1)}, {"default", profile_of(2, 2)}});
  EXPECT_EQ(policy.terms(policy.tenants()[0], "", {}, false)->profile, "default");
}

TEST(Policy, AnOperatorsWordGoesBeforeTheProfilesAndTheGuests) {
  const Policy policy = policy_of({}, {{"p", profile_of(kGiB, 50)}});
  EXPECT_EQ(policy.share_of("p", {}, {}, false)->weight, 50U);
  EXPECT_EQ(policy.share_of("p", {0, 20, 0, 0}, {}, false)->weight, 20U);
  EXPECT_EQ(policy.share_of("p", {0, 80, 0, 0}, {}, false)->weight, 50U) << "it was lowered since";
  EXPECT_EQ(policy.share_of("p", {0, 20, 0, 0}, {0, 900, 0, 1}, false)->weight, 900U);
  EXPECT_EQ(policy.share_of("p", {}, {0, 0, 0, 1}, false)->priority, PriorityClass::kSystem);
  EXPECT_FALSE(policy.share_of("gone", {}, {}, true).has_value());
}

TEST(Policy, SecretsAreComparedWhole) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abcabc", "abc")) << "a repetition is not the same";
  EXPECT_FALSE(same_secret("ab", "abc"));
  EXPECT_FALSE(same_secret("a", ""));
  EXPECT_TRUE(same_secret("", ""));
}

TEST(DominantShare, TheResourceThatOneHasMostOfCounts) {
  using scheduler::dominant_share;
  EXPECT_DOUBLE_EQ(dominant_share({{1, 10}, {3, 4}}), 0.75);
  EXPECT_DOUBLE_EQ(dominant_share({{0, 10}, {0, 0}}), 0);
}

}  // namespace
}  // namespace vgpu::server
