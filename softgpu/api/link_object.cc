// Linking PTX: inputs are read at once, put together at the end.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/link_object.h"

#include <algorithm>
#include <cstring>

#include "api/cudart/image.h"
#include "base/log.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

// A container as nvcc writes it, with one entry per text.
struct ContainerHeader {
  uint32_t magic = 0xBA55ED50;
  uint16_t version = 1, header_bytes = 16;
  uint64_t body_bytes = 0;
};
struct EntryHeader {
  uint16_t kind = 1, version = 0x101;
  uint32_t header_bytes = 64;
  uint64_t payload_bytes = 0;
  uint32_t compressed_bytes = 0, options_offset = 0;
  uint16_t minor = 0, major = 9;
  uint32_t arch = 0, name_offset = 0, name_bytes = 0;
  uint64_t flags = 0x11, reserved = 0, uncompressed_bytes = 0;
};
static_assert(sizeof(ContainerHeader) == 16 && sizeof(EntryHeader) == 64);

uint32_t our_capability() {
  const CapabilityLimits& limits = Driver::instance().device().config().limits;
  return static_cast<uint32_t>(limits.major * 10 + limits.minor);
}

std::string container_of(const std::vector<std::string>& texts) {
  std::string body;
  for (const std::string& text : texts) {
    EntryHeader entry;
    entry.payload_bytes = (text.size() + 8) / 8 * 8;  // with at least one NUL
    entry.arch = our_capability();
    body.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    body.append(text);
    body.append(entry.payload_bytes - text.size(), '\0');
  }
  ContainerHeader header;
  header.body_bytes = body.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

}  // namespace

CUresult LinkState::refuse(CUresult code, const std::string& text) {
  log_text_ += log_text_.empty() ? text : "\n" + text;
  VGPU_LOG_ERROR("link: %s", text.c_str());
  log_.write(log_text_);
  return code;
}

CUresult LinkState::add_text(std::string text, const std::string& name) {
  Diagnostic diagnostic;
  if (Program::parse(text, &diagnostic) == nullptr) {
    std::string line = text_of(diagnostic);
    if (!name.empty()) line.replace(0, std::strlen("ptx input"), name);
    return refuse(CUDA_ERROR_INVALID_PTX, line);
  }
  texts_.push_back(std::move(text));
  return CUDA_SUCCESS;
}

// Objects and archives hold containers somewhere inside.
CUresult LinkState::add_containers(const char* bytes, size_t size, bool must_have) {
  const uint32_t magic = ContainerHeader().magic;
  bool found = false;
  for (size_t at = 0; at + sizeof(ContainerHeader) <= size; at += 4) {
    if (std::memcmp(bytes + at, &magic, sizeof magic) != 0) continue;
    std::vector<cudart::Image> images;
    std::string why;
    if (!cudart::parse_images(bytes + at, size - at, &images, &why)) continue;
    const cudart::Image* const best = cudart::best_ptx(images, our_capability());
    if (best == nullptr) continue;
    found = true;
    std::string text;
    if (!cudart::ptx_text(*best, &text, &why))
      return refuse(CUDA_ERROR_INVALID_IMAGE, "error   : " + why);
    if (const CUresult result = add_text(std::move(text), ""); result != CUDA_SUCCESS)
      return result;
  }
  if (found || !must_have) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                "error   : no PTX for this device in the input; the software GPU links PTX only");
}

CUresult LinkState::add(CUjitInputType type, const void* data, size_t bytes,
                        const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const char* const text = static_cast<const char*>(data);
  switch (type) {
    case CU_JIT_INPUT_PTX:
      return add_text(std::string(text, strnlen(text, bytes)), name);
    case CU_JIT_INPUT_CUBIN:  // ours, of an earlier link, are containers
    case CU_JIT_INPUT_FATBINARY: {
      std::string why;
      if (!cudart::check_image(data, bytes, &why))
        return refuse(CUDA_ERROR_INVALID_IMAGE, "error   : " + why);
      return add_containers(text, bytes, true);
    }
    case CU_JIT_INPUT_OBJECT:
      return add_containers(text, bytes, true);
    case CU_JIT_INPUT_LIBRARY:
      return add_containers(text, bytes, false);
    default:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "error   : inputs of this kind are not supported");
  }
}

CUresult LinkState::complete(void** image, size_t* bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (texts_.empty()) return refuse(CUDA_ERROR_UNKNOWN, "error   : nothing to link");
  std::vector<std::string_view> views(texts_.begin(), texts_.end());
  Diagnostic diagnostic;
  if (Program::link(views, &diagnostic) == nullptr)
    return refuse(CUDA_ERROR_UNKNOWN, "error   : " + diagnostic.text);
  const std::string container = container_of(texts_);
  image_.assign(container.size() / 8 + 1, 0);
  std::memcpy(image_.data(), container.data(), container.size());
  log_.write(log_text_);
  *image = image_.data();
  if (bytes != nullptr) *bytes = container.size();
  return CUDA_SUCCESS;
}

}  // namespace vgpu::softgpu
