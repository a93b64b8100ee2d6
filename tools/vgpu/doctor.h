// vgpu doctor: what a machine lacks, and what to do about it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_DOCTOR_H_
#define VGPU_TOOLS_VGPU_DOCTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/vgpu/environment.h"
#include "tools/vgpu/places.h"
#include "tools/vgpu/server_query.h"

namespace vgpu::tools {

enum class Verdict { kOk = 0, kWarn = 1, kFail = 2 };

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string what;    // "server", "memory"
  std::string text;    // what was found
  std::string advice;  // what to do; empty when all is well
};

// --- facts of the machine; gathered in facts.cc, so that judging them can be tested
struct MachineFacts {
  bool avx2 = false, fma = false;
  unsigned cores = 0;
  uint64_t memory_total = 0, memory_available = 0;
  uint64_t memlock_bytes = 0;  // UINT64_MAX = unlimited
  bool memfd_seals = false, pidfd = false, seccomp = false;
  std::string kernel;
  bool address_range = false;  // the range of device addresses can be claimed
};
MachineFacts gather_machine_facts();

struct CudaFacts {
  std::string driver_version;  // of NVIDIA's kernel module; empty: not loaded
  std::string driver_library;  // path of NVIDIA's libcuda.so.1; empty: none
  int device_files = 0;        // /dev/nvidia0 …
  bool hmm_known = false, hmm_disabled = false;
  std::string nvcc;     // path; empty: none
  std::string runtime;  // path of a libcudart.so; empty: none
};
CudaFacts gather_cuda_facts();

// Loads `library` in a child process; empty when it loads, else the loader's message.
std::string load_error(const std::string& library);

// --- judgements: pure
std::vector<Finding> judge_machine(const MachineFacts& facts);
std::vector<Finding> judge_cuda(const CudaFacts& facts);
Finding judge_server(const ServerAnswer& answer, const std::string& own_version);
Finding judge_library(const std::string& what, const std::string& path, const std::string& error,
                      const std::string& variable);
Finding judge_programs(const Places& places);
Finding judge_preload(const Environment& environment, const Places& places);

Verdict worst_of(const std::vector<Finding>& findings);
std::string findings_text(const std::vector<Finding>& findings);
std::string findings_json(const std::vector<Finding>& findings);

// Checks everything and prints it. 0: all well, 1: warnings, 2: something fails.
int examine(const std::string& server, bool json);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_DOCTOR_H_
