// Copying through memory that two processors share.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_STREAM_COPY_H_
#define VGPU_BASE_STREAM_COPY_H_

#include <cstddef>

namespace vgpu {

// For data that passes between two cores through shared memory. Each in its place is several times
// as fast as the C library's memcpy, which on some processors copies large blocks with an
// instruction that is slow for certain alignments.

// As memcpy, past the caches where the machine can: lines that another core has read last are
// slow to win back for an ordinary store. The bytes are visible before anything that the caller
// stores after the return. Worth it from some hundred bytes on.
void stream_copy(void* to, const void* from, size_t bytes);

// As memcpy, line by line: what another core has streamed is read, `to` is left in the caches.
void line_copy(void* to, const void* from, size_t bytes);

}  // namespace vgpu

#endif  // VGPU_BASE_STREAM_COPY_H_
