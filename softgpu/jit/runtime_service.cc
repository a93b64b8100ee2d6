// printf, malloc, free and assert of compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {
namespace {

constexpr size_t kTextMax = 4096;

template <typename T>
T load(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

// Walks the arguments of one lane: naturally aligned, as the compiler laid them out.
class Arguments {
 public:
  explicit Arguments(uint64_t at) : at_(at) {}
  template <typename T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const T value = load<T>(at_);
    at_ += sizeof(T);
    return value;
  }

 private:
  uint64_t at_;
};

struct Text {
  char bytes[kTextMax];
  size_t size = 0;
  void add(const char* from, size_t n) {
    n = n < kTextMax - size ? n : kTextMax - size;
    std::memcpy(bytes + size, from, n);
    size += n;
  }
};

// One conversion, from its '%' on; returns its length in the format.
size_t convert(const char* format, Arguments* args, Text* text) {
  char spec[64];
  size_t n = 0;
  int longs = 0;
  spec[n++] = '%';
  const char* f = format + 1;
  while (*f != 0 && std::strchr("-+ #0123456789.*", *f) != nullptr && n < 40) {
    if (*f == '*')
      n += static_cast<size_t>(std::snprintf(spec + n, 16, "%d", args->next<int>()));
    else
      spec[n++] = *f;
    ++f;
  }
  while (*f == 'l' || *f == 'h' || *f == 'z' || *f == 'j' || *f == 't') {
    longs += *f == 'l' || *f == 'z' || *f == 'j' || *f == 't';
    ++f;
  }
  char out[512];
  int written = 0;
  const char kind = *f;
  if (kind == '%') {
    out[0] = '%';
    written = 1;
  } else if (kind == 's') {
    spec[n++] = 's';
    spec[n] = 0;
    written =
        std::snprintf(out, sizeof out, spec, reinterpret_cast<const char*>(args->next<uint64_t>()));
  } else if (kind == 'p') {
    written = std::snprintf(out, sizeof out, "%p", reinterpret_cast<void*>(args->next<uint64_t>()));
  } else if (kind != 0 && std::strchr("fFeEgGaA", kind) != nullptr) {
    spec[n++] = kind;
    spec[n] = 0;
    written = std::snprintf(out, sizeof out, spec, args->next<double>());
  } else if (kind != 0 && std::strchr("diuxXoc", kind) != nullptr) {
    if (longs > 0) n += static_cast<size_t>(std::snprintf(spec + n, 3, "ll"));
    spec[n++] = kind;
    spec[n] = 0;
    written = longs > 0 ? std::snprintf(out, sizeof out, spec, args->next<long long>())
                        : std::snprintf(out, sizeof out, spec, args->next<int>());
  } else {
    text->add(format, 1);
    return 1;
  }
  if (written > 0)
    text->add(out, static_cast<size_t>(written) < sizeof out ? static_cast<size_t>(written)
                                                             : sizeof out - 1);
  return static_cast<size_t>(f - format) + 1;
}

void print_lanes(WarpContext* warp, uint32_t mask, const uint64_t* format,
                 const uint64_t* arguments, const uint64_t* result) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const auto* f = reinterpret_cast<const char*>(load<uint64_t>(format[lane]));
    Arguments args(load<uint64_t>(arguments[lane]));
    Text text;
    while (*f != 0) {
      if (*f == '%') {
        f += convert(f, &args, &text);
      } else {
        text.add(f++, 1);
      }
    }
    warp->services->device->print({text.bytes, text.size});
    const int count = static_cast<int>(text.size);
    if (result != nullptr) std::memcpy(reinterpret_cast<void*>(result[lane]), &count, sizeof count);
  }
}

void allocate(WarpContext* warp, uint32_t mask, const uint64_t* bytes, const uint64_t* result) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const uint64_t address = warp->services->device->heap_alloc(load<uint64_t>(bytes[lane]));
    if (result != nullptr)
      std::memcpy(reinterpret_cast<void*>(result[lane]), &address, sizeof address);
  }
}

void release(WarpContext* warp, uint32_t mask, const uint64_t* address) {
  for (uint32_t m = mask; m != 0; m &= m - 1)
    warp->services->device->heap_free(load<uint64_t>(address[__builtin_ctz(m)]));
}

// file:line: function: block: […], thread: […] Assertion `…` failed.
void report_assert(WarpContext* warp, uint32_t mask, const uint64_t* message, const uint64_t* file,
                   const uint64_t* line, const uint64_t* function) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    char text[1024];
    const int n = std::snprintf(
        text, sizeof text,
        "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
        reinterpret_cast<const char*>(load<uint64_t>(file[lane])), load<uint32_t>(line[lane]),
        reinterpret_cast<const char*>(load<uint64_t>(function[lane])), warp->ctaid[0],
        warp->ctaid[1], warp->ctaid[2], warp->tid[0][lane], warp->tid[1][lane], warp->tid[2][lane],
        reinterpret_cast<const char*>(load<uint64_t>(message[lane])));
    if (n > 0)
      warp->services->device->assert_failed(
          {text, static_cast<size_t>(n) < sizeof text ? static_cast<size_t>(n) : sizeof text - 1});
  }
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_service_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_vprintf", address_of(print_lanes)},
                                           {"sg_malloc", address_of(allocate)},
                                           {"sg_free", address_of(release)},
                                           {"sg_assert", address_of(report_assert)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
