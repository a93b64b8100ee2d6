// libFuzzer: any bytes as an image that came through the channel.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "api/cudart/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  namespace cudart = vgpu::cudart;
  std::vector<cudart::Image> images;
  std::string why;
  const bool whole = cudart::check_image(data, bytes, &why);
  if (cudart::parse_images(data, bytes, &images, &why) && !whole) std::abort();
  const cudart::Image* best = cudart::best_ptx(images, 121);
  if (best != nullptr && best->kind != cudart::Image::Kind::kPtx) std::abort();
  // What was measured may be read without a length, as a driver does. Text needs its NUL for that.
  std::string copy(reinterpret_cast<const char*>(data), bytes);
  std::string blob;
  if (whole && !cudart::flatten_image(copy.c_str(), &blob, &why)) std::abort();
  if (blob.size() > bytes + 1) std::abort();
  return 0;
}
