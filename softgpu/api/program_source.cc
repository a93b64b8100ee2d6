// From an image in the caller's memory to a parsed program.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api/cudart/image.h"
#include "base/log.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

// Every ISA of CUDA 13: programs of a later minor version run on its first driver. What this
// compiler does not know of them it refuses form by form.
constexpr int kPtxVersionMax = 99;

// "PTX of 9.0, machine code of 7.5, 8.0": what there is instead.
std::string contents(const std::vector<cudart::Image>& images) {
  std::string text;
  for (const cudart::Image::Kind kind : {cudart::Image::Kind::kPtx, cudart::Image::Kind::kCubin}) {
    std::string archs;
    for (const cudart::Image& image : images) {
      if (image.kind != kind) continue;
      const std::string arch =
          std::to_string(image.arch / 10) + "." + std::to_string(image.arch % 10);
      archs += (archs.empty() ? "" : ", ") + (image.arch == 0 ? "unknown kind" : arch);
    }
    if (archs.empty()) continue;
    text += (text.empty() ? "" : ", ") +
            std::string(kind == cudart::Image::Kind::kPtx ? "PTX" : "machine code") + " of " +
            archs;
  }
  return text.empty() ? "nothing that is known" : text;
}

CUresult refuse_without_ptx(const JitLog& log, const std::vector<cudart::Image>& images,
                            uint32_t capability) {
  std::string text = "no PTX for compute capability " + std::to_string(capability / 10) + "." +
                     std::to_string(capability % 10) + " in the image (it holds " +
                     contents(images) +
                     "): the software GPU runs PTX only; build with nvcc's "
                     "-gencode arch=compute_75,code=compute_75 (or -arch=sm_75) to embed it";
  VGPU_LOG_ERROR("%s", text.c_str());
  log.write(text);
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// Modules compiled to be linked come as several texts for one architecture.
std::shared_ptr<const Program> parse_texts(const std::vector<cudart::Image>& images,
                                           const cudart::Image& best, const std::string& source,
                                           Diagnostic* error) {
  std::vector<std::string> texts;
  for (const cudart::Image& image : images) {
    if (image.kind != cudart::Image::Kind::kPtx || image.arch != best.arch ||
        cudart::is_bound(image) != cudart::is_bound(best))
      continue;
    texts.emplace_back();
    if (!cudart::ptx_text(image, &texts.back(), &error->text)) return nullptr;
  }
  if (texts.size() == 1) return Program::parse(source, error);
  return Program::link({texts.begin(), texts.end()}, error);
}

// `why`: what is wrong with it, where the result is not success.
CUresult parse_one(const std::vector<cudart::Image>& images, const cudart::Image& ptx,
                   std::shared_ptr<const Program>* parsed, std::string* why) {
  std::string source;
  if (!cudart::ptx_text(ptx, &source, why)) {
    *why = "image refused: " + *why;
    return CUDA_ERROR_INVALID_IMAGE;
  }
  Diagnostic diagnostic;
  *parsed = parse_texts(images, ptx, source, &diagnostic);
  if (*parsed != nullptr) return CUDA_SUCCESS;
  *why = text_of(diagnostic);
  return CUDA_ERROR_INVALID_PTX;
}

// Code for one architecture may use what is in that hardware only; who brings that mostly brings
// the same for all others too.
CUresult parse_best(const std::vector<cudart::Image>& images, const cudart::Image& best,
                    uint32_t capability, std::shared_ptr<const Program>* parsed, std::string* why) {
  const CUresult result = parse_one(images, best, parsed, why);
  if (result != CUDA_ERROR_INVALID_PTX || !cudart::is_bound(best)) return result;
  const cudart::Image* const general = cudart::best_ptx(images, capability, true);
  return general == nullptr ? result : parse_one(images, *general, parsed, why);
}

}  // namespace

std::string text_of(const Diagnostic& diagnostic) {
  char place[64];
  std::snprintf(place, sizeof(place), "ptx input, line %d, column %d; error   : ", diagnostic.line,
                diagnostic.column);
  return place + diagnostic.text;
}

JitLog JitLog::from_options(unsigned count, const CUjit_option* options, void** values) {
  JitLog log;
  if (options == nullptr || values == nullptr) return log;
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER:
        log.error = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        log.info = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        log.error_filled = &values[i];
        log.error_bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        log.info_filled = &values[i];
        log.info_bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
        break;
      default:
        break;
    }
  }
  return log;
}

void JitLog::write(const std::string& text) const {
  if (error != nullptr && error_bytes != 0) {
    const size_t length = std::min(text.size(), error_bytes - 1);
    std::memcpy(error, text.data(), length);
    error[length] = '\0';
    *error_filled = reinterpret_cast<void*>(static_cast<uintptr_t>(text.empty() ? 0 : length + 1));
  }
  if (info != nullptr && info_bytes != 0) {
    info[0] = '\0';
    *info_filled = nullptr;
  }
}

CUresult parse_program(const void* image, const JitLog& log,
                       std::shared_ptr<const Program>* program) {
  const CapabilityLimits& limits = Driver::instance().device().config().limits;
  const uint32_t capability = static_cast<uint32_t>(limits.major * 10 + limits.minor);
  std::vector<cudart::Image> images;
  std::string why;
  if (!cudart::parse_images(image, &images, &why)) {
    VGPU_LOG_ERROR("image refused: %s", why.c_str());
    log.write(why);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const cudart::Image* ptx = cudart::best_ptx(images, capability);
  if (ptx == nullptr) return refuse_without_ptx(log, images, capability);
  std::shared_ptr<const Program> parsed;
  if (const CUresult result = parse_best(images, *ptx, capability, &parsed, &why);
      result != CUDA_SUCCESS) {
    VGPU_LOG_ERROR("%s", why.c_str());
    log.write(why);
    return result;
  }
  for (const KernelInfo& kernel : parsed->kernels()) {
    if (kernel.ptx_version > kPtxVersionMax) {
      log.write("the PTX's ISA version is newer than this driver knows");
      return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (kernel.target_sm > static_cast<int>(capability)) {
      log.write("the PTX is for a newer target than this device");
      return CUDA_ERROR_INVALID_PTX;
    }
  }
  log.write("");
  *program = std::move(parsed);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::softgpu
