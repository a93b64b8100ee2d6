// What kernels ask of the host: printf in all its forms, the heap, clocks, asserts and traps.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <string>

#include "app.h"

__device__ const char kWords[] = "a string in memory";

__global__ void formats(int n, double x, long long big, const void* pointer) {
  printf("plain\n");
  printf("%d|%i|%u|%5d|%-5d|%05d|%+d|% d|\n", n, -n, n, n, n, n, n, n);
  printf("%x|%X|%#x|%o|%#o|%c|%%|\n", n, n, n, n, n, 'A' + n % 26);
  printf("%lld|%llu|%llx|%ld|%20lld|%zu|\n", big, big, big, static_cast<long>(-big), big,
         static_cast<size_t>(big));
  printf("%f|%.3f|%10.2f|%-10.1f|%e|%.2E|%g|%G|%a|\n", x, x, x, x, x, x, x, x * 1e20, x);
  printf("%s|%10s|%-10s|%.3s|%s|\n", "abc", "abc", "abc", "abcdef", kWords);
  printf("%p|%*d|%-*d|%.*f|\n", pointer, 8, n, 6, n, 2, x);
  printf("%hd|%hhd|%hu|%hhu|\n", static_cast<short>(n), static_cast<signed char>(n),
         static_cast<unsigned short>(n), static_cast<unsigned char>(n));
  printf("%d %d %d %d %d %d %d %d %d %d %f %d %lld %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, x, n, big,
         n);
}

__global__ void lanes(int* returned) {
  const int t = threadIdx.x;
  int r = 0;
  if (t % 3 == 0)
    r = printf("lane %d of block %d\n", t, static_cast<int>(blockIdx.x));
  else if (t % 3 == 1)
    r = printf("odd %s %g %d\n", t % 2 != 0 ? "one" : "two", t * 0.25, t);
  else
    r = printf("nothing\n");
  returned[t] = r;
}

__global__ void heap(int** kept, int* sums, int rounds) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
  for (int i = 1; i <= rounds; ++i) {
    int* p = static_cast<int*>(malloc(i * sizeof(int)));
    if (p == nullptr) return;
    for (int j = 0; j < i; ++j) p[j] = t + j;
    for (int j = 0; j < i; ++j) sum += p[j];
    free(p);
  }
  int* own = new int[3];
  own[0] = t, own[1] = 2 * t, own[2] = 3 * t;
  kept[t] = own;
  sums[t] = sum;
}
__global__ void collect(int** kept, int* sums) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  int* other = kept[t ^ 5];
  sums[t] += other[0] + other[1] + other[2];
  delete[] other;
}
__global__ void exhaust(int* got) {
  int count = 0;
  while (malloc(1 << 20) != nullptr) ++count;
  *got = count;
}

__global__ void clocks(long long* out) {
  const long long a = clock64();
  const unsigned b = clock();
  unsigned long long t0, t1;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  __nanosleep(1000);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
  out[0] = clock64() - a;
  out[1] = static_cast<long long>(static_cast<unsigned>(clock()) - b);
  out[2] = static_cast<long long>(t1 - t0);
}

namespace {

// What the program prints to stdout while it lives.
class Capture {
 public:
  Capture() {
    std::fflush(stdout);
    saved_ = dup(1);
    file_ = std::tmpfile();
    dup2(fileno(file_), 1);
  }
  std::string end() {
    std::fflush(stdout);
    dup2(saved_, 1);
    close(saved_);
    std::string text(static_cast<size_t>(lseek(fileno(file_), 0, SEEK_END)), '\0');
    lseek(fileno(file_), 0, SEEK_SET);
    const ssize_t got = ::read(fileno(file_), text.data(), text.size());
    std::fclose(file_);
    return got == static_cast<ssize_t>(text.size()) ? text : "";
  }

 private:
  int saved_ = -1;
  std::FILE* file_ = nullptr;
};

template <typename... T>
void add(std::string* text, const char* format, T... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  *text += line;
}

std::string expected_formats(int n, double x, long long big, const void* pointer) {
  std::string s = "plain\n";
  add(&s, "%d|%i|%u|%5d|%-5d|%05d|%+d|% d|\n", n, -n, n, n, n, n, n, n);
  add(&s, "%x|%X|%#x|%o|%#o|%c|%%|\n", n, n, n, n, n, 'A' + n % 26);
  add(&s, "%lld|%llu|%llx|%ld|%20lld|%zu|\n", big, big, big, static_cast<long>(-big), big,
      static_cast<size_t>(big));
  add(&s, "%f|%.3f|%10.2f|%-10.1f|%e|%.2E|%g|%G|%a|\n", x, x, x, x, x, x, x, x * 1e20, x);
  add(&s, "%s|%10s|%-10s|%.3s|%s|\n", "abc", "abc", "abc", "abcdef", "a string in memory");
  add(&s, "%p|%*d|%-*d|%.*f|\n", pointer, 8, n, 6, n, 2, x);
  add(&s, "%hd|%hhd|%hu|%hhu|\n", static_cast<short>(n), static_cast<signed char>(n),
      static_cast<unsigned short>(n), static_cast<unsigned char>(n));
  add(&s, "%d %d %d %d %d %d %d %d %d %d %f %d %lld %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, x, n, big,
      n);
  return s;
}

bool check_formats() {
  const void* pointer = reinterpret_cast<void*>(0x7f12345678);
  bool good = true;
  for (int n : {7, 40000, 123456}) {
    Capture capture;
    formats<<<1, 1>>>(n, n * 0.7, 1234567890123LL * n, pointer);
    CHECKED(cudaDeviceSynchronize());
    const std::string got = capture.end();
    const std::string want = expected_formats(n, n * 0.7, 1234567890123LL * n, pointer);
    if (got != want) std::printf("got:\n%swanted:\n%s", got.c_str(), want.c_str());
    good &= got == want;
  }
  std::printf("formats: %s\n", good ? "right" : "wrong");
  return good;
}

bool check_lanes() {
  int *returned, host[40], wrong = 0;
  CHECKED(cudaMalloc(&returned, sizeof host));
  Capture capture;
  lanes<<<1, 40>>>(returned);
  CHECKED(cudaDeviceSynchronize());
  const std::string got = capture.end();
  CHECKED(cudaMemcpy(host, returned, sizeof host, cudaMemcpyDeviceToHost));
  size_t bytes = 0;
  for (int t = 0; t < 40; ++t) {
    std::string line = "nothing\n";
    if (t % 3 == 0) line.clear(), add(&line, "lane %d of block 0\n", t);
    if (t % 3 == 1)
      line.clear(), add(&line, "odd %s %g %d\n", t % 2 != 0 ? "one" : "two", t * 0.25, t);
    wrong += got.find(line) == std::string::npos;
    wrong += host[t] != (t % 3 == 0 ? 2 : t % 3 == 1 ? 3 : 0);
    bytes += line.size();
  }
  wrong += bytes != got.size();
  std::printf("lanes: %d wrong\n", wrong);
  return wrong == 0;
}

bool check_heap() {
  constexpr int kThreads = 4 * 64;
  int **kept, *sums, host[kThreads], got = 0, wrong = 0;
  CHECKED(cudaMalloc(&kept, kThreads * sizeof(int*)));
  CHECKED(cudaMalloc(&sums, sizeof host));
  heap<<<4, 64>>>(kept, sums, 9);
  collect<<<4, 64>>>(kept, sums);
  CHECKED(cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost));
  for (int t = 0; t < kThreads; ++t) {
    int sum = 6 * (t ^ 5);
    for (int i = 1; i <= 9; ++i) sum += i * t + i * (i - 1) / 2;
    wrong += host[t] != sum;
  }
  exhaust<<<1, 1>>>(sums);
  CHECKED(cudaMemcpy(&got, sums, sizeof got, cudaMemcpyDeviceToHost));
  std::printf("heap: %d wrong, ends: %s\n", wrong, got > 2 && got < 12 ? "yes" : "no");
  return wrong == 0 && got > 2 && got < 12;
}

bool check_clocks() {
  long long *out, host[3];
  CHECKED(cudaMalloc(&out, sizeof host));
  clocks<<<1, 1>>>(out);
  CHECKED(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  const bool good = host[0] > 0 && host[1] > 0 && host[2] >= 0;
  std::printf("clocks: %s\n", good ? "go" : "stand");
  return good;
}

}  // namespace

int main() {
  bool good = check_formats();
  good &= check_lanes();
  good &= check_heap();
  good &= check_clocks();
  return app::finish("services", good);
}
