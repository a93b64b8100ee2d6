// What each fact means for a user, and what to do about it.
// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"
#include "tools/vgpu/doctor.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

constexpr uint64_t kMemoryWanted = 2 * kGiB;
constexpr uint64_t kMemoryNeeded = 512 * kMiB;
constexpr uint64_t kMemlockWanted = 8 * kMiB;

Finding judge_cpu(const MachineFacts& facts) {
  if (facts.avx2 && facts.fma) return {Verdict::kOk, "processor", "has AVX2 and FMA", ""};
  return {Verdict::kWarn, "processor",
          std::string("lacks ") + (facts.avx2  ? "FMA"
                                   : facts.fma ? "AVX2"
                                               : "AVX2 and FMA"),
          "the software GPU is much slower without; with a real GPU it does not matter"};
}

Finding judge_cores(const MachineFacts& facts) {
  const std::string text = std::to_string(facts.cores) + (facts.cores == 1 ? " core" : " cores");
  if (facts.cores >= 2) return {Verdict::kOk, "cores", text, ""};
  return {Verdict::kWarn, "cores", text,
          "guest and server take turns on one core: every round trip then costs two switches"};
}

Finding judge_memory(const MachineFacts& facts) {
  const std::string text =
      bytes_text(facts.memory_available) + " available of " + bytes_text(facts.memory_total);
  if (facts.memory_available >= kMemoryWanted) return {Verdict::kOk, "memory", text, ""};
  return {facts.memory_available >= kMemoryNeeded ? Verdict::kWarn : Verdict::kFail, "memory", text,
          "the software GPU's device memory is this memory; 2 GiB are comfortable"};
}

Finding judge_memlock(const MachineFacts& facts) {
  const bool unlimited = facts.memlock_bytes == UINT64_MAX;
  const std::string text = unlimited ? "unlimited" : bytes_text(facts.memlock_bytes);
  if (unlimited || facts.memlock_bytes >= kMemlockWanted) {
    return {Verdict::kOk, "memlock limit", text, ""};
  }
  return {Verdict::kWarn, "memlock limit", text,
          "pinned memory may be refused; raise it: ulimit -l unlimited, or in limits.conf"};
}

Finding judge_kernel(const MachineFacts& facts) {
  std::string missing;
  const auto need = [&](bool there, const char* name) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need(facts.memfd_seals, "sealed memfd");
  need(facts.pidfd, "pidfd");
  need(facts.seccomp, "seccomp filters");
  if (missing.empty()) {
    return {Verdict::kOk, "kernel", facts.kernel + ": sealed memfd, pidfd and seccomp work", ""};
  }
  return {Verdict::kFail, "kernel", facts.kernel + " lacks: " + missing,
          "Linux 5.3 or newer is needed; in a container its seccomp profile may hide them"};
}

Finding judge_addresses(const MachineFacts& facts) {
  if (facts.address_range) {
    return {Verdict::kOk, "address space", "the range of device addresses is free", ""};
  }
  return {Verdict::kWarn, "address space", "the range of device addresses cannot be claimed",
          "ulimit -v must be unlimited; until then allocating device memory costs round trips"};
}

}  // namespace

std::vector<Finding> judge_machine(const MachineFacts& facts) {
  return {judge_cpu(facts),     judge_cores(facts),  judge_memory(facts),
          judge_memlock(facts), judge_kernel(facts), judge_addresses(facts)};
}

Finding judge_library(const std::string& what, const std::string& path, const std::string& error,
                      const std::string& variable) {
  if (path.empty()) {
    return {Verdict::kFail, what, "is not beside this program",
            "build or install vGPU completely, or set " + variable + " to its libcuda.so.1"};
  }
  if (!error.empty()) {
    return {Verdict::kFail, what, "does not load: " + error,
            "a library that it needs is missing or too old on this machine"};
  }
  return {Verdict::kOk, what, path + " loads", ""};
}

Finding judge_programs(const Places& places) {
  if (!places.server.empty() && !places.worker.empty()) {
    return {Verdict::kOk, "server programs", places.server, ""};
  }
  const std::string missing = places.server.empty() ? "vgpud" : "vgpu-worker";
  return {Verdict::kWarn, "server programs", missing + " is not beside this program",
          "guests need none here; a server on this machine needs both vgpud and vgpu-worker"};
}

std::vector<Finding> judge_cuda(const CudaFacts& facts) {
  std::vector<Finding> findings;
  if (facts.driver_version.empty()) {
    const bool half = !facts.driver_library.empty();
    findings.push_back(
        half
            ? Finding{Verdict::kWarn, "NVIDIA driver",
                      facts.driver_library + " is installed, but its kernel module is not loaded",
                      "load it (modprobe nvidia) or reboot; meanwhile vgpud takes the software GPU"}
            : Finding{Verdict::kOk, "NVIDIA driver", "none: the software GPU serves here", ""});
  } else if (facts.driver_library.empty() || facts.device_files == 0) {
    findings.push_back(
        {Verdict::kWarn, "NVIDIA driver",
         facts.driver_version + (facts.driver_library.empty() ? ", but no libcuda.so.1 is installed"
                                                              : ", but there is no /dev/nvidia0"),
         "in containers: use NVIDIA's container toolkit (--gpus all)"});
  } else {
    findings.push_back({Verdict::kOk, "NVIDIA driver",
                        facts.driver_version + ", " + std::to_string(facts.device_files) +
                            (facts.device_files == 1 ? " GPU" : " GPUs"),
                        ""});
  }
  if (!facts.driver_version.empty()) {
    findings.push_back(
        facts.hmm_known && facts.hmm_disabled
            ? Finding{Verdict::kOk, "HMM", "is off", ""}
            : Finding{Verdict::kWarn, "HMM",
                      facts.hmm_known ? "is not switched off in nvidia-uvm"
                                      : "its setting cannot be read (nvidia-uvm not loaded?)",
                      "with HMM a guest's kernel can reach its worker's memory; for several "
                      "tenants: options nvidia-uvm uvm_disable_hmm=1 in /etc/modprobe.d"});
  }
  const bool toolkit = !facts.nvcc.empty();
  findings.push_back(
      toolkit ? Finding{Verdict::kOk, "CUDA toolkit", facts.nvcc, ""}
      : !facts.runtime.empty()
          ? Finding{Verdict::kOk, "CUDA toolkit", "no nvcc, but the runtime " + facts.runtime, ""}
          : Finding{Verdict::kWarn, "CUDA toolkit", "neither nvcc nor a CUDA runtime found",
                    "needed only to build programs; tools/install_dependencies.sh brings one"});
  return findings;
}

Finding judge_preload(const Environment& environment, const Places& places) {
  const auto found = environment.find("LD_PRELOAD");
  if (found == environment.end() || found->second.empty()) {
    return {Verdict::kOk, "LD_PRELOAD", "is not set", ""};
  }
  const std::string& value = found->second;
  const bool ours =
      (!places.guest_library.empty() && value.find(places.guest_library) != std::string::npos) ||
      value.find("libcuda.so.1") != std::string::npos;
  if (ours) {
    return {Verdict::kWarn, "LD_PRELOAD", "already holds a libcuda.so.1: " + value,
            "every program here is a guest then, vgpud would refuse to start; vgpu run sets it for "
            "one program only"};
  }
  return {Verdict::kWarn, "LD_PRELOAD", "is set: " + value,
          "vgpu run puts the guest library before it and keeps the rest"};
}

Finding judge_server(const ServerAnswer& answer, const std::string& own_version) {
  if (answer.state != ServerState::kAnswers) {
    return {Verdict::kFail, "server", problem_text(answer), advice_text(answer)};
  }
  const protocol::InfoReply& info = answer.info;
  if (info.server_version != own_version) {
    return {Verdict::kWarn, "server",
            "version mismatch: " + answer.address + " runs version " + info.server_version +
                ", this is " + own_version,
            "install the same version on both sides; guests of another wire format are refused"};
  }
  return {Verdict::kOk, "server",
          answer.address + ": version " + info.server_version + ", driver " + info.driver + ", " +
              std::to_string(info.guests.size()) + (info.guests.size() == 1 ? " guest" : " guests"),
          ""};
}

}  // namespace vgpu::tools
