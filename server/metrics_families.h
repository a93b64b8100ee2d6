// A reading as Prometheus's metric families.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_METRICS_FAMILIES_H_
#define VGPU_SERVER_METRICS_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics.h"

namespace vgpu::server {

// docs/monitoring.md lists them. Every family is there in every answer, with no series where there
// is nothing to count.
std::vector<prometheus::MetricFamily> metric_families(const Reading& reading);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_METRICS_FAMILIES_H_
