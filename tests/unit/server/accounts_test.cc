// Counters that only grow, whatever workers write; rates; fairness; names and labels of metrics.
// SPDX-License-Identifier: Apache-2.0
#include "server/accounts.h"

#include <gtest/gtest.h>

#include <set>

#include "server/metrics_endpoint.h"
#include "server/metrics_families.h"

namespace vgpu::server {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Used used(double kernels, double compute = 0) {
  Used made;
  made.kernels = kernels;
  made.engine_seconds[0] = compute;
  return made;
}

TEST(Accounts, WhatWasSeenIsNotTakenBack) {
  Accounts accounts;
  EXPECT_EQ(accounts.read(1, "t", used(10, 2)).kernels, 10);
  EXPECT_EQ(accounts.read(1, "t", used(3, 5)).kernels, 10);
  EXPECT_EQ(accounts.read(1, "t", used(3, 5)).engine_seconds[0], 5);
  EXPECT_EQ(accounts.read(1, "t", used(1e300)).kernels, 1e300);  // its own lie
}

TEST(Accounts, TenantsKeepWhatTheirGuestsUsed) {
  Accounts accounts;
  accounts.read(1, "a", used(10));
  accounts.read(2, "a", used(5));
  accounts.read(3, "b", used(7));
  EXPECT_EQ(accounts.tenants()["a"].kernels, 15);
  accounts.end(1);
  accounts.end(1);
  accounts.end(99);
  EXPECT_EQ(accounts.tenants()["a"].kernels, 15);
  EXPECT_EQ(accounts.ended().kernels, 10);
  accounts.read(4, "a", used(1));
  EXPECT_EQ(accounts.tenants()["a"].kernels, 16);
  EXPECT_EQ(accounts.tenants()["b"].kernels, 7);
}

TEST(Accounts, TenantsAreNotCountedWithoutEnd) {
  Accounts accounts;
  for (uint64_t i = 0; i < 2 * kTenantsCounted; ++i) {
    accounts.read(i, "t" + std::to_string(i), used(1));
    accounts.end(i);
  }
  EXPECT_EQ(accounts.tenants().size(), kTenantsCounted + 1);
  EXPECT_EQ(accounts.tenants()["other"].kernels, static_cast<double>(kTenantsCounted));
  accounts.read(5000, "t5", used(1));  // known: still itself
  EXPECT_EQ(accounts.tenants()["t5"].kernels, 2);
}

RateSample sample(uint64_t session, double compute, double wait, uint32_t weight = 1,
                  std::vector<uint32_t> devices = {0}) {
  return {session, weight, compute, wait, std::move(devices)};
}

TEST(Rates, BusyIsOfTheTimeBetweenReadings) {
  Rates rates;
  rates.add(10 * kSecond, {sample(1, 100, 0)});
  EXPECT_EQ(rates.busy(0), 0);  // of no known time
  rates.add(10 * kSecond + kSecond / 2, {sample(1, 101, 0)});
  EXPECT_EQ(rates.busy(0), 0);  // too soon
  rates.add(12 * kSecond, {sample(1, 101, 0), sample(2, 0.5, 0)});
  EXPECT_DOUBLE_EQ(rates.busy(0), 0.75);
  EXPECT_EQ(rates.busy(1), 0);
  rates.add(13 * kSecond, {sample(1, 9000, 0, 1, {0, 1})});
  EXPECT_EQ(rates.busy(0), 1);  // never more than all of it
  EXPECT_EQ(rates.busy(1), 1);
  rates.add(14 * kSecond, {sample(1, 3, 0)});
  EXPECT_EQ(rates.busy(0), 0);  // never less than nothing
}

TEST(Rates, FairnessIsAmongThoseWhoWait) {
  Rates rates;
  rates.add(1 * kSecond, {});
  EXPECT_EQ(rates.jain(), 1);
  rates.add(2 * kSecond, {sample(1, 0.6, 1, 2), sample(2, 0.3, 1, 1), sample(3, 0.01, 0, 1)});
  EXPECT_DOUBLE_EQ(rates.jain(), 1);  // as weighted; the third wanted no more
  rates.add(3 * kSecond, {sample(1, 1.6, 2, 1), sample(2, 0.3, 2, 1), sample(3, 0.01, 0, 1)});
  EXPECT_DOUBLE_EQ(rates.jain(), 0.5);  // one of two had everything
  rates.add(4 * kSecond, {sample(1, 2.6, 2, 1)});
  EXPECT_EQ(rates.jain(), 1);  // nobody waits
}

Reading reading_of(size_t guests) {
  Reading reading;
  reading.devices.resize(2);
  for (size_t i = 0; i < guests; ++i) {
    GuestReading& guest = reading.guests.emplace_back();
    guest.session = 100 + i;
    guest.vgpu = "same";
    guest.tenant = i % 2 == 0 ? "even" : "odd";
    guest.memory = {{0, 64, 32}, {1, 64, 16}};
    guest.used = used(5);
    reading.tenants[guest.tenant] += guest.used;
  }
  return reading;
}

std::set<std::string> names_of(const Reading& reading) {
  std::set<std::string> names;
  for (const auto& family : metric_families(reading)) names.insert(family.name);
  return names;
}

TEST(MetricFamilies, EveryNameAndSeriesIsThereOnce) {
  const Reading reading = reading_of(5);
  std::set<std::string> names, series;
  for (const prometheus::MetricFamily& family : metric_families(reading)) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.name.ends_with("_total"), family.type == prometheus::MetricType::Counter)
        << family.name;
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::string key = family.name;
      for (const auto& label : metric.label) key += "," + label.name + "=" + label.value;
      EXPECT_TRUE(series.insert(key).second) << key;
    }
  }
  EXPECT_EQ(names, names_of(reading_of(0)));  // also without guests
}

TEST(MetricFamilies, WaitsAreCumulative) {
  Reading reading = reading_of(1);
  Used& used = reading.guests[0].used;
  for (size_t i = 0; i < used.waits.size(); ++i) used.waits[i] = static_cast<double>(i + 1);
  used.wait_seconds = 2.5;
  for (const prometheus::MetricFamily& family : metric_families(reading)) {
    if (family.name != "vgpu_queue_wait_seconds") continue;
    const auto& histogram = family.metric.at(0).histogram;
    ASSERT_EQ(histogram.bucket.size(), kWaitBuckets);
    EXPECT_EQ(histogram.bucket[0].cumulative_count, 1u);
    EXPECT_EQ(histogram.bucket[0].upper_bound, 1e-4);
    EXPECT_EQ(histogram.bucket[2].cumulative_count, 6u);
    EXPECT_EQ(histogram.bucket.back().cumulative_count, histogram.sample_count);
    EXPECT_EQ(histogram.sample_count, kWaitBuckets * (kWaitBuckets + 1) / 2);
    EXPECT_EQ(histogram.sample_sum, 2.5);
    used.waits[0] = 1e300;  // a worker may write anything
    EXPECT_FALSE(metric_families(reading).empty());
    return;
  }
  FAIL() << "no such family";
}

TEST(MetricFamilies, TenantsAreSums) {
  for (const prometheus::MetricFamily& family : metric_families(reading_of(3))) {
    if (family.name != "vgpu_tenant_memory_used_bytes") continue;
    ASSERT_EQ(family.metric.size(), 2u);
    EXPECT_EQ(family.metric[0].label[0].value, "even");
    EXPECT_EQ(family.metric[0].gauge.value, 96);
    EXPECT_EQ(family.metric[1].gauge.value, 48);
  }
}

TEST(MetricsAddress, PortsAndAddresses) {
  EXPECT_EQ(metrics_address("19464"), "127.0.0.1:19464");
  EXPECT_EQ(metrics_address(":80"), "127.0.0.1:80");
  EXPECT_EQ(metrics_address("0.0.0.0:9"), "0.0.0.0:9");
  EXPECT_EQ(metrics_address("[::1]:9"), "[::1]:9");
  for (const char* wrong : {"", "0", "65536", "host:1", "1.2.3.4", "1.2.3.4:", "80,81", "80s",
                            "::1:80", "+80", "1:2:3", "127.0.0.1:80,90", "99999999999999999999"}) {
    EXPECT_EQ(metrics_address(wrong), "") << wrong;
  }
}

}  // namespace
}  // namespace vgpu::server
