// Small text files that must not be what others have written: keys, and who may do what.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_SMALL_FILE_H_
#define VGPU_NET_CONTROL_SMALL_FILE_H_

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::net {

inline constexpr size_t kFileBytesMax = 1 << 20;

enum class Trust {
  kSecret,  // nobody else may read it, or write it
  kWrite,   // nobody else may write it
};

// The whole file, which belongs to this user or to root. kPermissionDenied names what is wrong with
// its owner or mode; kNotFound: it is not there; kResourceExhausted: more than kFileBytesMax.
// `info` (may be null) is what the file was when it was read.
Result<std::string> read_small_file(const std::string& path, Trust trust,
                                    struct stat* info = nullptr);

// Replaces the file at once (or not at all), with that mode. Makes its folder (0700) when missing.
// Without `replace` kAlreadyExists when there is one.
Status write_small_file(const std::string& path, std::string_view text, mode_t mode, bool replace);

// Makes the folder of `path` (0700) when it is missing, and holds a lock on it while it lives, so
// that two who change a file in it do not lose each other's change.
Result<UniqueFd> lock_folder_of(const std::string& path);

// Lines without their ends. A line that is empty, "#" or begins with "# " is a comment and comes
// out empty, so that numbers stay right. (A key may begin with '#', but has no blank.)
std::vector<std::string_view> lines_of(std::string_view text);

// The words of a line.
std::vector<std::string_view> words_of(std::string_view line);

// Where a file of this name may lie, the user's own first: $XDG_CONFIG_HOME/vgpu or
// ~/.config/vgpu, then /etc/vgpu.
std::vector<std::string> config_places(const std::string& name);

// The first of these that is there; when none is, where it belongs: /etc/vgpu when `system`, else
// the user's.
std::string find_config(const std::string& name, bool system);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_SMALL_FILE_H_
