// printf, malloc, free, assert and the conditions of graphs, for compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/lane_memory.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {
namespace {

constexpr size_t kTextMax = 16384;  // of one printf
constexpr int kArgumentsMax = 32;   // as documented: specifiers beyond are printed as they are

// Walks the arguments of one lane: naturally aligned, as the compiler laid them out.
class Arguments {
 public:
  explicit Arguments(uint64_t at) : at_(at) {}
  template <typename T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const T value = load<T>(at_);
    at_ += sizeof(T);
    ++count_;
    return value;
  }
  int count() const { return count_; }
  bool spent() const { return at_ == 0 || count_ >= kArgumentsMax; }

 private:
  uint64_t at_;
  int count_ = 0;
};

struct Text {
  char bytes[kTextMax];
  size_t size = 0;
  void add(const char* from, size_t n) {
    n = n < kTextMax - size ? n : kTextMax - size;
    std::memcpy(bytes + size, from, n);
    size += n;
  }
  template <typename T>
  void print(const char* spec, T value) {
    const size_t room = kTextMax - size;
    const int n = std::snprintf(bytes + size, room, spec, value);
    if (n > 0) size += static_cast<size_t>(n) < room ? static_cast<size_t>(n) : room - 1;
  }
};

// Flags, width, precision and size of one conversion, copied for the host's printf; `*` becomes the
// argument's number. `longs` counts what makes an argument 8 bytes.
const char* read_spec(const char* f, Arguments* args, char* spec, size_t* n, int* longs) {
  constexpr size_t kRoom = 40;
  while (*f != 0 && std::strchr("-+ #0123456789.*", *f) != nullptr && *n < kRoom) {
    if (*f == '*')
      *n += static_cast<size_t>(std::snprintf(spec + *n, 16, "%d", args->next<int>()));
    else
      spec[(*n)++] = *f;
    ++f;
  }
  for (; *f != 0 && std::strchr("lhzjt", *f) != nullptr && *n < kRoom; ++f) {
    if (*f == 'h')
      spec[(*n)++] = *f;
    else
      ++*longs;
  }
  return f;
}

// One conversion, from its '%' on; returns its length in the format.
size_t convert(const char* format, Arguments* args, Text* text) {
  if (format[1] == '%') {
    text->add(format, 1);
    return 2;
  }
  if (args->spent()) {
    text->add(format, 1);
    return 1;
  }
  char spec[80] = "%";
  size_t n = 1;
  int longs = 0;
  const char* const f = read_spec(format + 1, args, spec, &n, &longs);
  const char kind = *f;
  if (kind == 0 || std::strchr("spfFeEgGaAdiuxXoc", kind) == nullptr) {
    text->add(format, 1);
    return 1;
  }
  const bool wide = longs > 0 && std::strchr("diuxXo", kind) != nullptr;
  if (wide) n += static_cast<size_t>(std::snprintf(spec + n, 3, "ll"));
  spec[n++] = kind;
  spec[n] = 0;
  if (kind == 's' || kind == 'p')
    text->print(spec, reinterpret_cast<const char*>(args->next<uint64_t>()));
  else if (std::strchr("fFeEgGaA", kind) != nullptr)
    text->print(spec, args->next<double>());
  else if (wide)
    text->print(spec, args->next<long long>());
  else
    text->print(spec, args->next<int>());
  return static_cast<size_t>(f - format) + 1;
}

void print_lanes(WarpContext* warp, uint32_t mask, const uint64_t* format,
                 const uint64_t* arguments, const uint64_t* result) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const auto* f = reinterpret_cast<const char*>(load<uint64_t>(format[lane]));
    if (f == nullptr) {
      constexpr int kNoFormat = -1;
      if (result != nullptr) store(result[lane], kNoFormat);
      continue;
    }
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
    const int count = args.count();
    if (result != nullptr) store(result[lane], count);
  }
}

void allocate(WarpContext* warp, uint32_t mask, const uint64_t* bytes, const uint64_t* result) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const uint64_t address = warp->services->device->heap_alloc(load<uint64_t>(bytes[lane]));
    if (result != nullptr) store(result[lane], address);
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

void set_conditional(WarpContext* warp, uint32_t mask, const uint64_t* handle,
                     const uint64_t* value) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const auto which = load<uint64_t>(handle[lane]);
    if (!warp->services->device->set_conditional(which, load<uint32_t>(value[lane])))
      warp->services->abort(CUDA_ERROR_ILLEGAL_ADDRESS, which, "no conditional handle");
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
                                           {"sg_set_conditional", address_of(set_conditional)},
                                           {"sg_assert", address_of(report_assert)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
