// What the counts mean: a table for people, advice, and JSON.
// SPDX-License-Identifier: Apache-2.0
#include <cstdarg>
#include <cstdio>
#include <map>

#include "softgpu/api/profile.h"

namespace vgpu::softgpu {
namespace {

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char buffer[400];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

void accumulate(const KernelProfile& from, KernelProfile* to) {
  // Occupancies are means over the launches, by their time.
  const double time = static_cast<double>(to->elapsed_ns + from.elapsed_ns);
  const double share = time == 0 ? 0 : static_cast<double>(from.elapsed_ns) / time;
  to->achieved_occupancy += (from.achieved_occupancy - to->achieved_occupancy) * share;
  to->theoretical_occupancy += (from.theoretical_occupancy - to->theoretical_occupancy) * share;
  for (size_t c = 0; c < kInstructionClasses; ++c)
    to->warp_instructions[c] += from.warp_instructions[c];
  constexpr uint64_t KernelProfile::*kSums[] = {
      &KernelProfile::launches,          &KernelProfile::blocks,
      &KernelProfile::elapsed_ns,        &KernelProfile::warp_steps,
      &KernelProfile::lane_steps,        &KernelProfile::flops,
      &KernelProfile::global_requests,   &KernelProfile::global_sectors,
      &KernelProfile::global_ideal,      &KernelProfile::global_bytes,
      &KernelProfile::shared_requests,   &KernelProfile::shared_passes,
      &KernelProfile::shared_ideal,      &KernelProfile::branches,
      &KernelProfile::divergent_branches};
  for (auto sum : kSums) to->*sum += from.*sum;
  to->fewer_blocks_than_sms = to->fewer_blocks_than_sms && from.fewer_blocks_than_sms;
}

std::vector<KernelProfile> by_kernel(const std::vector<KernelProfile>& launches) {
  std::vector<KernelProfile> kernels;
  std::map<std::string, size_t> places;
  for (const KernelProfile& launch : launches) {
    const auto [place, fresh] = places.try_emplace(launch.name, kernels.size());
    if (fresh) {
      kernels.push_back(launch);
    } else {
      accumulate(launch, &kernels[place->second]);
    }
  }
  return kernels;
}

// One JSON object, a member at a time. Names of kernels are PTX identifiers and our own texts have
// no quotes, so nothing needs escaping.
class JsonObject {
 public:
  void number(const char* name, double value) { member(name, text("%.17g", value)); }
  void number(const char* name, uint64_t value) {
    member(name, text("%llu", static_cast<unsigned long long>(value)));
  }
  void string(const char* name, const std::string& value) { member(name, "\"" + value + "\""); }
  void dims(const char* name, const Dim3& d) { member(name, text("[%u, %u, %u]", d.x, d.y, d.z)); }
  void member(const char* name, const std::string& value) {
    body_ += (body_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
  }
  std::string take() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

std::string json_of(const KernelProfile& p) {
  JsonObject mix;
  for (size_t c = 0; c < kInstructionClasses; ++c)
    mix.number(std::string(kInstructionClassNames[c]).c_str(), p.warp_instructions[c]);
  std::string advice;
  for (const std::string& line : advice_for(p))
    advice += (advice.empty() ? "\"" : ", \"") + line + "\"";
  JsonObject json;
  json.string("kernel", p.name);
  json.dims("grid", p.grid);
  json.dims("block", p.block);
  json.number("launches", p.launches);
  json.number("blocks", p.blocks);
  json.number("elapsed_ns", p.elapsed_ns);
  json.number("theoretical_occupancy", p.theoretical_occupancy);
  json.number("achieved_occupancy", p.achieved_occupancy);
  json.member("warp_instructions", mix.take());
  json.number("lane_efficiency", ratio(p.lane_steps, p.warp_steps * 32));
  json.number("flops", p.flops);
  json.number("flops_per_byte", ratio(p.flops, p.global_bytes));
  json.number("global_requests", p.global_requests);
  json.number("global_sectors_per_request", ratio(p.global_sectors, p.global_requests));
  json.number("global_ideal_sectors_per_request", ratio(p.global_ideal, p.global_requests));
  json.number("global_bytes", p.global_bytes);
  json.number("shared_requests", p.shared_requests);
  json.number("shared_passes_per_request", ratio(p.shared_passes, p.shared_requests));
  json.number("shared_bank_conflicts", p.shared_passes - p.shared_ideal);
  json.number("branches", p.branches);
  json.number("divergent_branches", p.divergent_branches);
  json.member("advice", "[" + advice + "]");
  return json.take();
}

std::string json_array(const std::vector<KernelProfile>& profiles) {
  std::string list;
  for (const KernelProfile& p : profiles) list += (list.empty() ? "\n " : ",\n ") + json_of(p);
  return "[" + list + "]";
}

}  // namespace

std::vector<std::string> advice_for(const KernelProfile& p) {
  std::vector<std::string> advice;
  if (p.global_sectors > 2 * p.global_ideal && p.global_requests != 0) {
    advice.push_back(text(
        "global memory: %.1f sectors per request where %.1f would do; let neighbouring threads "
        "use neighbouring addresses, through a tile in shared memory if need be",
        ratio(p.global_sectors, p.global_requests), ratio(p.global_ideal, p.global_requests)));
  }
  if (2 * p.shared_passes > 3 * p.shared_ideal) {
    advice.push_back(
        text("shared memory: bank conflicts, %.1f passes where 1 would do; pad the rows of arrays "
             "by one element",
             ratio(p.shared_passes, p.shared_ideal)));
  }
  if (10 * p.divergent_branches > p.branches) {
    advice.push_back(
        text("branches: %.0f %% split their warp, and %.0f %% of the lanes work; branch on what is "
             "equal in a warp",
             100 * ratio(p.divergent_branches, p.branches),
             100 * ratio(p.lane_steps, p.warp_steps * 32)));
  }
  if (p.theoretical_occupancy < 0.5) {
    advice.push_back(
        text("occupancy: at most %.0f %% of an SM's warps fit; use smaller blocks, less shared "
             "memory or fewer registers",
             100 * p.theoretical_occupancy));
  }
  if (p.fewer_blocks_than_sms)
    advice.push_back("grid: fewer blocks than SMs; some have nothing to do");
  return advice;
}

std::string profile_table(const std::vector<KernelProfile>& launches) {
  std::string out =
      text("%-40s %8s %10s %12s %11s %12s %12s %11s %10s\n", "kernel", "launches", "time", "blocks",
           "occupancy", "sectors/req", "passes/req", "divergent", "flop/byte");
  for (const KernelProfile& p : by_kernel(launches)) {
    const std::string occupancy =
        text("%.0f%% of %.0f%%", 100 * p.achieved_occupancy, 100 * p.theoretical_occupancy);
    out += text("%-40s %8llu %7.3f ms %12llu %11s %12.2f %12.2f %10.1f%% %10.2f\n",
                p.name.substr(0, 40).c_str(), static_cast<unsigned long long>(p.launches),
                static_cast<double>(p.elapsed_ns) / 1e6, static_cast<unsigned long long>(p.blocks),
                occupancy.c_str(), ratio(p.global_sectors, p.global_requests),
                ratio(p.shared_passes, p.shared_requests),
                100 * ratio(p.divergent_branches, p.branches), ratio(p.flops, p.global_bytes));
    uint64_t total = 0;
    for (uint64_t n : p.warp_instructions) total += n;
    std::string mix;
    for (size_t c = 0; c < kInstructionClasses; ++c) {
      if (p.warp_instructions[c] == 0) continue;
      mix += text(" %s %.0f%%", std::string(kInstructionClassNames[c]).c_str(),
                  100 * ratio(p.warp_instructions[c], total));
    }
    out += "    instructions:" + mix + "\n";
    for (const std::string& line : advice_for(p)) out += "    " + line + "\n";
  }
  return out;
}

std::string profile_json(const std::vector<KernelProfile>& launches) {
  return "{\"kernels\": " + json_array(by_kernel(launches)) +
         ",\n\"launches\": " + json_array(launches) + "}\n";
}

}  // namespace vgpu::softgpu
