// The environment's word about where caches are.
// SPDX-License-Identifier: Apache-2.0
#include "base/cache_folder.h"

#include <sys/auxv.h>
#include <unistd.h>

#include "base/env.h"

namespace vgpu {

std::string compiled_kernels_folder() {
  if (::getauxval(AT_SECURE) != 0) return "";
  if (const auto named = env_text("VGPU_SOFTGPU_CACHE"))
    return *named == "off" || *named == "0" ? "" : std::string(*named);
  if (const auto cache = env_text("XDG_CACHE_HOME"); cache && cache->front() == '/')
    return std::string(*cache) + "/vgpu/softgpu";
  if (::geteuid() == 0) return "/var/cache/vgpu/softgpu";
  if (const auto home = env_text("HOME"); home && home->front() == '/')
    return std::string(*home) + "/.cache/vgpu/softgpu";
  return "";
}

}  // namespace vgpu
