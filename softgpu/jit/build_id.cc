// Finds the note that the linker wrote.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace vgpu::softgpu {
namespace {

// The notes of one object, when it contains `inside`.
struct Search {
  uintptr_t inside;
  std::string id;
};

std::string id_in_notes(const char* at, size_t bytes) {
  const char* const end = at + bytes;
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const char* const name = at + sizeof note;
    const char* const content = name + (note.n_namesz + 3) / 4 * 4;
    if (content + note.n_descsz > end) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
      return std::string(content, note.n_descsz);
    at = content + (note.n_descsz + 3) / 4 * 4;
  }
  return "";
}

int visit(dl_phdr_info* object, size_t, void* data) {
  auto* const search = static_cast<Search*>(data);
  bool found = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    found = found || (segment.p_type == PT_LOAD && search->inside >= begin &&
                      search->inside < begin + segment.p_memsz);
  }
  if (!found) return 0;
  for (int i = 0; i < object->dlpi_phnum && search->id.empty(); ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    search->id = id_in_notes(reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr),
                             segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string own_build_id() {
  Search search{reinterpret_cast<uintptr_t>(&own_build_id), ""};
  dl_iterate_phdr(visit, &search);
  return search.id;
}

}  // namespace vgpu::softgpu
