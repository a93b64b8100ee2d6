// A thread with descriptors of its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_PRIVATE_FILES_H_
#define VGPU_NET_CONTROL_PRIVATE_FILES_H_

#include <span>

namespace vgpu::net {

// From now on the calling thread, and the threads that it makes, have a table of descriptors that
// the rest of the process does not see: what they open has no number there, is not inherited by a
// child that the program forks, and is not closed by a program that closes everything. Of what was
// open only `keep` stays; standard input, output and error are /dev/null unless kept. False: this
// kernel (before 5.9) or its sandbox does not let us, and nothing has changed.
bool take_private_files(std::span<const int> keep);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_PRIVATE_FILES_H_
