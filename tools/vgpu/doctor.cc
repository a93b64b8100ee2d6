// Putting the findings together and showing them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/doctor.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/vgpu/doctor_network.h"

namespace vgpu::tools {
namespace {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      break;
  }
  return "fail";
}

std::string library_error(const std::string& path) { return path.empty() ? "" : load_error(path); }

}  // namespace

Verdict worst_of(const std::vector<Finding>& findings) {
  Verdict worst = Verdict::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  return worst;
}

std::string findings_text(const std::vector<Finding>& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.what.size());
  std::string text;
  for (const Finding& finding : findings) {
    std::string verdict = verdict_name(finding.verdict);
    verdict.resize(4, ' ');
    std::string what = finding.what;
    what.resize(width, ' ');
    text += verdict + "  " + what + "  " + finding.text + "\n";
    if (!finding.advice.empty()) {
      text += std::string(width + 8, ' ') + "-> " + finding.advice + "\n";
    }
  }
  return text;
}

std::string findings_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json json;
  json["worst"] = verdict_name(worst_of(findings));
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"what", finding.what},
                                {"verdict", verdict_name(finding.verdict)},
                                {"text", finding.text},
                                {"advice", finding.advice}});
  }
  return json.dump(2) + "\n";
}

int examine(const std::string& server, bool json) {
  const Places places = find_places();
  std::vector<Finding> findings = judge_machine(gather_machine_facts());
  findings.push_back(judge_library("guest library", places.guest_library,
                                   library_error(places.guest_library), "VGPU_GUEST_LIBRARY"));
  findings.push_back(judge_library("software GPU", places.soft_library,
                                   library_error(places.soft_library), "VGPU_SOFT_DRIVER"));
  findings.push_back(judge_programs(places));
  for (Finding& finding : judge_cuda(gather_cuda_facts())) findings.push_back(std::move(finding));
  for (Finding& finding : judge_network(gather_network_facts(server, places)))
    findings.push_back(std::move(finding));
  findings.push_back(judge_preload(current_environment(), places));
  findings.push_back(judge_server(query_server(server), VGPU_VERSION));
  const Verdict worst = worst_of(findings);
  if (json) {
    std::fputs(findings_json(findings).c_str(), stdout);
  } else {
    std::fputs(findings_text(findings).c_str(), stdout);
    std::printf("\n%s\n", worst == Verdict::kOk     ? "All is well."
                          : worst == Verdict::kWarn ? "It works; the warnings say what is limited."
                                                    : "Something is missing: see the lines with "
                                                      "\"fail\".");
  }
  return static_cast<int>(worst);
}

}  // namespace vgpu::tools
