// Each cause gives its own verdict and its own advice.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/vgpu/doctor_network.h"

namespace vgpu::tools {
namespace {

using testing::HasSubstr;

MachineFacts good_machine() {
  MachineFacts facts;
  facts.avx2 = facts.fma = true;
  facts.cores = 4;
  facts.memory_total = facts.memory_available = uint64_t{8} << 30;
  facts.memlock_bytes = UINT64_MAX;
  facts.memfd_seals = facts.pidfd = facts.seccomp = true;
  facts.kernel = "Linux 6.1";
  facts.address_range = true;
  return facts;
}

Finding find(const std::vector<Finding>& findings, const std::string& what) {
  for (const Finding& finding : findings) {
    if (finding.what == what) return finding;
  }
  ADD_FAILURE() << "no finding about " << what;
  return {};
}

TEST(Doctor, AGoodMachineIsAllWell) {
  EXPECT_EQ(worst_of(judge_machine(good_machine())), Verdict::kOk);
}

TEST(Doctor, EachLackOfTheMachineIsNamed) {
  MachineFacts facts = good_machine();
  facts.fma = false;
  EXPECT_THAT(find(judge_machine(facts), "processor").text, HasSubstr("lacks FMA"));
  facts = good_machine();
  facts.cores = 1;
  EXPECT_EQ(find(judge_machine(facts), "cores").verdict, Verdict::kWarn);
  facts = good_machine();
  facts.memory_available = 1 << 20;
  EXPECT_EQ(find(judge_machine(facts), "memory").verdict, Verdict::kFail);
  facts = good_machine();
  facts = good_machine();
  facts.memlock_bytes = 64 << 10;
  EXPECT_THAT(find(judge_machine(facts), "memlock limit").advice, HasSubstr("ulimit -l"));
  facts = good_machine();
  facts.pidfd = facts.seccomp = false;
  const Finding kernel = find(judge_machine(facts), "kernel");
  EXPECT_EQ(kernel.verdict, Verdict::kFail);
  EXPECT_THAT(kernel.text, HasSubstr("pidfd, seccomp"));
  facts = good_machine();
  facts.address_range = false;
  EXPECT_THAT(find(judge_machine(facts), "address space").advice, HasSubstr("ulimit -v"));
}

TEST(Doctor, FiveCausesOfNoServerReadDifferently) {
  std::vector<std::string> texts, advices;
  for (ServerState state :
       {ServerState::kNoSocket, ServerState::kNobodyListens, ServerState::kNotPermitted,
        ServerState::kWrongVersion, ServerState::kRefused, ServerState::kSilent,
        ServerState::kNotAServer, ServerState::kBadAddress, ServerState::kNotReached,
        ServerState::kNotAdmitted}) {
    ServerAnswer answer;
    answer.state = state;
    answer.address = "unix:/s";
    const Finding finding = judge_server(answer, "1");
    EXPECT_EQ(finding.verdict, Verdict::kFail);
    EXPECT_THAT(finding.text, HasSubstr("unix:/s"));
    texts.push_back(finding.text);
    advices.push_back(finding.advice);
  }
  for (std::vector<std::string>* list : {&texts, &advices}) {
    std::sort(list->begin(), list->end());
    EXPECT_EQ(std::unique(list->begin(), list->end()), list->end());
    EXPECT_FALSE(list->front().empty());
  }
}

TEST(Doctor, ServerOfAnotherVersionWarnsAndNamesBoth) {
  ServerAnswer answer;
  answer.state = ServerState::kAnswers;
  answer.info.server_version = "0.9";
  const Finding finding = judge_server(answer, "1.0");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.text, testing::AllOf(HasSubstr("0.9"), HasSubstr("1.0")));
  EXPECT_EQ(judge_server(answer, "0.9").verdict, Verdict::kOk);
}

TEST(Doctor, LibrariesMissingBrokenAndGood) {
  const Finding missing = judge_library("guest library", "", "", "VGPU_GUEST_LIBRARY");
  EXPECT_EQ(missing.verdict, Verdict::kFail);
  EXPECT_THAT(missing.advice, HasSubstr("VGPU_GUEST_LIBRARY"));
  const Finding broken = judge_library("guest library", "/l", "libz.so.9: not found", "V");
  EXPECT_EQ(broken.verdict, Verdict::kFail);
  EXPECT_THAT(broken.text, HasSubstr("libz.so.9"));
  EXPECT_EQ(judge_library("guest library", "/l", "", "V").verdict, Verdict::kOk);
  EXPECT_THAT(load_error("/nowhere/libcuda.so.1"), HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_EQ(load_error("libc.so.6"), "");
}

TEST(Doctor, NvidiaDriverAndItsHmmSetting) {
  CudaFacts facts;
  EXPECT_EQ(find(judge_cuda(facts), "NVIDIA driver").verdict, Verdict::kOk);  // nothing is needed
  facts.driver_library = "/l/libcuda.so.1";
  EXPECT_THAT(find(judge_cuda(facts), "NVIDIA driver").text, HasSubstr("not loaded"));
  facts.driver_version = "580.1";
  EXPECT_THAT(find(judge_cuda(facts), "NVIDIA driver").text, HasSubstr("/dev/nvidia0"));
  facts.device_files = 2;
  facts.hmm_known = true;
  EXPECT_EQ(find(judge_cuda(facts), "NVIDIA driver").verdict, Verdict::kOk);
  EXPECT_THAT(find(judge_cuda(facts), "HMM").advice, HasSubstr("uvm_disable_hmm=1"));
  facts.hmm_disabled = true;
  EXPECT_EQ(find(judge_cuda(facts), "HMM").verdict, Verdict::kOk);
}

TEST(Doctor, PreloadAlreadySet) {
  const Places places;
  EXPECT_EQ(judge_preload({}, places).verdict, Verdict::kOk);
  EXPECT_THAT(judge_preload({{"LD_PRELOAD", "/a/libcuda.so.1"}}, places).advice,
              HasSubstr("vgpud would refuse"));
  EXPECT_THAT(judge_preload({{"LD_PRELOAD", "/a/libjemalloc.so"}}, places).text,
              HasSubstr("libjemalloc"));
}

TEST(Doctor, TextAndJsonSayTheSame) {
  const std::vector<Finding> findings = {{Verdict::kOk, "a", "fine", ""},
                                         {Verdict::kFail, "long name", "bad", "do this"}};
  EXPECT_EQ(findings_text(findings),
            "ok    a          fine\n"
            "fail  long name  bad\n"
            "                 -> do this\n");
  const auto json = nlohmann::json::parse(findings_json(findings));
  EXPECT_EQ(json["worst"], "fail");
  EXPECT_EQ(json["findings"][1]["advice"], "do this");
}

TEST(Doctor, FactsOfThisMachineAreRead) {
  const MachineFacts facts = gather_machine_facts();
  EXPECT_GE(facts.cores, 1U);
  EXPECT_GE(facts.memory_total, facts.memory_available);
  EXPECT_GT(facts.memory_available, 0U);
  EXPECT_THAT(facts.kernel, HasSubstr("Linux"));
}

TEST(Doctor, NetworksOnlyMatterForServersThere) {
  NetworkFacts facts;
  EXPECT_EQ(find(judge_network(facts), "network plug-in").verdict, Verdict::kWarn);
  EXPECT_EQ(judge_network(facts).size(), 1u) << "no key is asked for";
  facts.remote = true;
  facts.guest_key_problem = "/k can be read by others: chmod 600 it";
  EXPECT_EQ(find(judge_network(facts), "network plug-in").verdict, Verdict::kFail);
  EXPECT_EQ(find(judge_network(facts), "guest key").verdict, Verdict::kFail);
  EXPECT_THAT(find(judge_network(facts), "guest key").text, HasSubstr("chmod 600"));
  EXPECT_EQ(find(judge_network(facts), "server's key").verdict, Verdict::kOk);
  facts.plugin = "/p";
  facts.guest_key_problem.clear();
  facts.server_key_problem = "not known";
  EXPECT_EQ(find(judge_network(facts), "network plug-in").verdict, Verdict::kOk);
  EXPECT_EQ(find(judge_network(facts), "guest key").verdict, Verdict::kOk);
  EXPECT_EQ(find(judge_network(facts), "server's key").verdict, Verdict::kFail);
  facts.plugin_error = "libzmq.so.5 is not there";
  EXPECT_THAT(find(judge_network(facts), "network plug-in").text, HasSubstr("libzmq.so.5"));
  facts.authorized = "/a";
  facts.authorized_problem = "/a: line 3 is not: KEY TENANT [comment]";
  EXPECT_EQ(find(judge_network(facts), "authorised keys").verdict, Verdict::kFail);
}

}  // namespace
}  // namespace vgpu::tools
