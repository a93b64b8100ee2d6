// Names, labels and units of what the endpoint shows.
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_families.h"

#include <limits.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace vgpu::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using scheduler::Engine;

constexpr double kMiB = 1024 * 1024;

class Families {
 public:
  // The family that following series belong to.
  void begin(const char* name, MetricType type, const char* help) {
    MetricFamily& family = made_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
  }
  void add(Labels labels, double value) {
    MetricFamily& family = made_.back();
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }
  // How long pieces of work waited that had to.
  void add_waits(Labels labels, const Used& used) {
    ClientMetric& metric = made_.back().metric.emplace_back();
    metric.label = std::move(labels);
    double count = 0;
    for (size_t i = 0; i < used.waits.size(); ++i) {
      count += used.waits[i];
      ClientMetric::Bucket bucket;
      bucket.cumulative_count = whole(count);
      bucket.upper_bound = i < std::size(kWaitBoundsNs)
                               ? static_cast<double>(kWaitBoundsNs[i]) / 1e9
                               : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back(bucket);
    }
    metric.histogram.sample_count = whole(count);
    metric.histogram.sample_sum = used.wait_seconds;
  }
  void gauge(const char* name, const char* help) { begin(name, MetricType::Gauge, help); }
  void counter(const char* name, const char* help) { begin(name, MetricType::Counter, help); }
  void histogram(const char* name, const char* help) { begin(name, MetricType::Histogram, help); }
  std::vector<MetricFamily> take() { return std::move(made_); }

 private:
  // What a worker writes may be any number.
  static uint64_t whole(double count) {
    return count < 1e18 ? static_cast<uint64_t>(count) : uint64_t{1'000'000'000'000'000'000};
  }

  std::vector<MetricFamily> made_;
};

Labels plus(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

Labels of_guest(const GuestReading& guest) {
  return {{"guest", std::to_string(guest.session)},
          {"vgpu", guest.vgpu},
          {"tenant", guest.tenant},
          {"user", guest.user}};
}

Labels of_device(const Reading& reading, uint32_t place) {
  return {{"gpu", std::to_string(place)}, {"gpu_uuid", reading.devices[place].uuid}};
}

double seconds(const Used& used, Engine engine) {
  return used.engine_seconds[static_cast<size_t>(engine)];
}

void add_server(const Reading& reading, Families* to) {
  to->gauge("vgpu_server_info", "Version of the server and of its driver; always 1");
  to->add({{"version", reading.version},
           {"driver", reading.driver},
           {"cuda_driver_version", std::to_string(reading.driver_version)}},
          1);
  to->gauge("vgpu_server_start_time_seconds", "When the server was started, since 1970");
  to->add({}, reading.started);
  to->gauge("vgpu_server_guests", "Guests that are attached");
  to->add({}, static_cast<double>(reading.guests.size()));
  to->gauge("vgpu_server_waiting_guests", "Guests that wait for a worker");
  to->add({}, reading.waiting_guests);
  to->gauge("vgpu_server_ready_workers", "Workers that wait for a guest");
  to->add({}, reading.ready_workers);
  to->counter("vgpu_server_attached_total", "Guests that were admitted");
  to->add({}, static_cast<double>(reading.attached));
  to->counter("vgpu_server_refused_total", "Guests that were turned away");
  to->add({}, static_cast<double>(reading.refused));
  to->counter("vgpu_server_worker_failures_total", "Workers that ended with an error");
  to->add({}, static_cast<double>(reading.failed_workers));
  to->gauge("vgpu_fairness_jain",
            "Jain's index of compute time over weight among guests that waited for their turn");
  to->add({}, reading.jain);
}

void add_devices(const Reading& reading, Families* to) {
  const auto each = [&](const char* name, const char* help, auto value) {
    to->gauge(name, help);
    for (uint32_t i = 0; i < reading.devices.size(); ++i)
      to->add(of_device(reading, i), static_cast<double>(value(reading.devices[i])));
  };
  to->gauge("gpu_info", "Which devices are shared; always 1");
  for (uint32_t i = 0; i < reading.devices.size(); ++i) {
    Labels labels = plus(of_device(reading, i), "name", reading.devices[i].name);
    to->add(plus(std::move(labels), "pci_bus_id", reading.devices[i].pci_bus_id), 1);
  }
  each("gpu_memory_bytes", "Memory of the device",
       [](const DeviceReading& device) { return device.memory_bytes; });
  each("gpu_memory_grantable_bytes", "Memory that guests can be granted, all together",
       [](const DeviceReading& device) { return device.grantable_bytes; });
  each("gpu_memory_granted_bytes", "Memory that is granted to guests",
       [](const DeviceReading& device) { return device.granted_bytes; });
  each("gpu_memory_used_bytes", "Memory that guests use",
       [](const DeviceReading& device) { return device.used_bytes; });
  each("gpu_busy_ratio", "Part of the time since an earlier scrape that the device computed",
       [](const DeviceReading& device) { return device.busy; });
}

// What is counted in the same way of a guest, of a tenant, and of all. Rows of one name stand
// together.
struct Counter {
  const char* name;
  const char* help;
  const char* direction;  // label `dir`; null: none
  double (*value)(const Used& used);
};
constexpr Counter kCounters[] = {
    {"sm_time_seconds_total", "Device time of kernels", nullptr,
     [](const Used& used) { return seconds(used, Engine::kCompute); }},
    {"copy_time_seconds_total", "Device time of copies", "to_device",
     [](const Used& used) { return seconds(used, Engine::kToDevice); }},
    {"copy_time_seconds_total", "", "from_device",
     [](const Used& used) { return seconds(used, Engine::kFromDevice); }},
    {"kernels_total", "Kernels launched; those of graphs singly", nullptr,
     [](const Used& used) { return used.kernels; }},
    {"copy_bytes_total", "Bytes copied between host and device", "to_device",
     [](const Used& used) { return used.copied_to; }},
    {"copy_bytes_total", "", "from_device", [](const Used& used) { return used.copied_from; }},
    {"queue_wait_seconds_total", "Time that work waited for its turn", nullptr,
     [](const Used& used) { return used.wait_seconds; }},
    {"throttled_seconds_total", "Part of that time: held back by a cap", nullptr,
     [](const Used& used) { return used.throttled_seconds; }},
    {"oom_total", "Allocations that were refused: over the quota", nullptr,
     [](const Used& used) { return used.refused; }},
};

// `of`: labels and counters of each series.
void add_used(const std::string& prefix, Families* to,
              const std::vector<std::pair<Labels, const Used*>>& of) {
  const char* last = "";
  for (const Counter& counter : kCounters) {
    if (std::string(counter.name) != last)
      to->counter((prefix + counter.name).c_str(), counter.help);
    last = counter.name;
    for (const auto& [labels, used] : of) {
      to->add(counter.direction == nullptr ? labels : plus(labels, "dir", counter.direction),
              counter.value(*used));
    }
  }
  to->histogram((prefix + "queue_wait_seconds").c_str(),
                "How long pieces of work waited for their turn that had to");
  for (const auto& [labels, used] : of) to->add_waits(labels, *used);
}

void add_guests(const Reading& reading, Families* to) {
  const auto each = [&](const char* name, const char* help, auto value) {
    to->gauge(name, help);
    for (const GuestReading& guest : reading.guests) to->add(of_guest(guest), value(guest));
  };
  const auto memory = [&](const char* name, const char* help, auto value) {
    to->gauge(name, help);
    for (const GuestReading& guest : reading.guests) {
      for (const GuestReading::Memory& part : guest.memory) {
        Labels labels = plus(of_guest(guest), "gpu", std::to_string(part.device));
        to->add(plus(std::move(labels), "gpu_uuid", reading.devices[part.device].uuid),
                static_cast<double>(value(part)));
      }
    }
  };
  to->gauge("vgpu_info", "Program and process of a guest; always 1");
  for (const GuestReading& guest : reading.guests) {
    Labels labels = plus(of_guest(guest), "executable", guest.executable);
    labels = plus(std::move(labels), "mode", guest.mode);
    to->add(plus(std::move(labels), "pid", std::to_string(guest.pid)), 1);
  }
  each("vgpu_start_time_seconds", "When the guest attached, since 1970",
       [](const GuestReading& guest) { return guest.started; });
  each("vgpu_share_weight", "Weight of the guest among its class",
       [](const GuestReading& guest) { return double(guest.share.weight); });
  each("vgpu_share_cap_ratio", "Part of the device's time that the guest may have; 1 = no cap",
       [](const GuestReading& guest) {
         return double(guest.share.cap_permille) / scheduler::kPermille;
       });
  memory("vgpu_memory_limit_bytes", "Memory quota of the guest on a device",
         [](const GuestReading::Memory& part) { return part.limit_bytes; });
  memory("vgpu_memory_used_bytes", "Memory of a device that the guest uses",
         [](const GuestReading::Memory& part) { return part.used_bytes; });
  std::vector<std::pair<Labels, const Used*>> all;
  for (const GuestReading& guest : reading.guests) all.emplace_back(of_guest(guest), &guest.used);
  add_used("vgpu_", to, all);
}

void add_tenants(const Reading& reading, Families* to) {
  struct Sum {
    double guests = 0, limit = 0, used = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto& [tenant, used] : reading.tenants) sums[tenant];
  for (const GuestReading& guest : reading.guests) {
    Sum& sum = sums[guest.tenant];
    ++sum.guests;
    for (const GuestReading::Memory& part : guest.memory) {
      sum.limit += static_cast<double>(part.limit_bytes);
      sum.used += static_cast<double>(part.used_bytes);
    }
  }
  const auto each = [&](const char* name, const char* help, double Sum::*value) {
    to->gauge(name, help);
    for (const auto& [tenant, sum] : sums) to->add({{"tenant", tenant}}, sum.*value);
  };
  each("vgpu_tenant_guests", "Guests of the tenant that are attached", &Sum::guests);
  each("vgpu_tenant_memory_limit_bytes", "Memory granted to guests of the tenant", &Sum::limit);
  each("vgpu_tenant_memory_used_bytes", "Memory that guests of the tenant use", &Sum::used);
  std::vector<std::pair<Labels, const Used*>> all;
  for (const auto& [tenant, used] : reading.tenants)
    all.emplace_back(Labels{{"tenant", tenant}}, &used);
  add_used("vgpu_tenant_", to, all);
  add_used("gpu_", to, {{Labels{}, &reading.all}});
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  (void)::gethostname(name, sizeof(name) - 1);
  return name;
}

// As NVIDIA's exporter names them, for dashboards made for it. A temperature is not known here;
// such dashboards list their GPUs by it.
void add_dcgm(const Reading& reading, Families* to) {
  const std::string host = host_name();
  const auto each = [&](const char* name, const char* help, auto value) {
    to->gauge(name, help);
    for (uint32_t i = 0; i < reading.devices.size(); ++i) {
      const DeviceReading& device = reading.devices[i];
      to->add({{"gpu", std::to_string(i)},
               {"UUID", device.uuid},
               {"device", "vgpu" + std::to_string(i)},
               {"modelName", device.name},
               {"Hostname", host}},
              value(device));
    }
  };
  each("DCGM_FI_DEV_FB_USED", "Memory used (in MiB)",
       [](const DeviceReading& device) { return double(device.used_bytes) / kMiB; });
  each("DCGM_FI_DEV_FB_FREE", "Memory not used (in MiB)", [](const DeviceReading& device) {
    return device.used_bytes > device.memory_bytes
               ? 0.0
               : double(device.memory_bytes - device.used_bytes) / kMiB;
  });
  each("DCGM_FI_DEV_GPU_UTIL", "Part of the time that the device computed (in %)",
       [](const DeviceReading& device) { return device.busy * 100; });
  each("DCGM_FI_DEV_GPU_TEMP", "Not known: always NaN",
       [](const DeviceReading&) { return std::numeric_limits<double>::quiet_NaN(); });
}

}  // namespace

std::vector<MetricFamily> metric_families(const Reading& reading) {
  Families families;
  add_server(reading, &families);
  add_devices(reading, &families);
  add_guests(reading, &families);
  add_tenants(reading, &families);
  add_dcgm(reading, &families);
  return families.take();
}

}  // namespace vgpu::server
