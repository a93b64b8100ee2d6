// The demo's table.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tools/vgpu/demo.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

std::string ratio(const std::vector<double>& ours, const std::vector<double>& raw) {
  const double base = median(raw);
  return base > 0 ? ratio_text(median(ours) / base) : "-";
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::string demo_table(const std::vector<DemoProgram>& programs) {
  Table times({{"program", Table::Align::kLeft},
               {"direct"},
               {"guest"},
               {"guest/direct"},
               {"both direct"},
               {"two guests"},
               {"guests/direct"}});
  Table counts({{"program", Table::Align::kLeft}, {"round trips"}, {"records"}, {"launches"}});
  for (const DemoProgram& program : programs) {
    times.add({program.name, duration_text(median(program.direct_ns)),
               duration_text(median(program.guest_ns)), ratio(program.guest_ns, program.direct_ns),
               duration_text(median(program.direct_together_ns)),
               duration_text(median(program.guest_together_ns)),
               ratio(program.guest_together_ns, program.direct_together_ns)});
    counts.add({program.name, count_text(program.stats.round_trips),
                count_text(program.stats.records), count_text(program.stats.launches)});
  }
  const size_t rounds = programs.empty() ? 0 : programs.front().direct_ns.size();
  return "Time from start to exit of each process on the software GPU, median of " +
         std::to_string(rounds) + (rounds == 1 ? " round.\n" : " rounds.\n") + times.text() +
         "\nWhat one guest run put into its channel.\n" + counts.text();
}

}  // namespace vgpu::tools
