// close_range with CLOSE_RANGE_UNSHARE.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/private_files.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

namespace vgpu::net {
namespace {

constexpr unsigned kUnshare = 1U << 1;  // CLOSE_RANGE_UNSHARE; not in the headers of glibc 2.31

bool close_range_of(unsigned first, unsigned last, unsigned flags) {
  return ::syscall(SYS_close_range, first, last, flags) == 0;
}

}  // namespace

bool take_private_files(std::span<const int> keep) {
  std::vector<unsigned> kept;
  for (const int fd : keep) kept.push_back(static_cast<unsigned>(fd));
  std::sort(kept.begin(), kept.end());
  // From the top: the first call unshares.
  unsigned last = UINT_MAX;
  unsigned flags = kUnshare;
  for (auto each = kept.rbegin(); each != kept.rend(); ++each) {
    if (*each < last && !close_range_of(*each + 1, last, flags)) return false;
    flags = 0;
    if (*each == 0) return true;
    last = *each - 1;
  }
  if (!close_range_of(0, last, flags)) return false;
  // Nothing that is opened later may get the numbers of standard input, output and error: whatever
  // is written there would go into it.
  for (int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC); fd >= 0 && fd <= 2;) {
    const int next = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (next > 2) ::close(next);
    fd = next;
  }
  return true;
}

}  // namespace vgpu::net
