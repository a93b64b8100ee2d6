// CUB over the whole device: reduce, scan, select, run lengths and radix sort. Scans and selections
// use decoupled look-back: blocks wait for what their predecessors publish.
// SPDX-License-Identifier: Apache-2.0
#include <cub/cub.cuh>

#include <numeric>
#include <vector>

#include "cub_app.h"

namespace {

using Word = unsigned;

using app::Array;
using app::report;

struct Odd {
  __device__ bool operator()(Word x) const { return (x & 1) != 0; }
};

bool check_sums(const std::vector<Word>& host) {
  const int n = static_cast<int>(host.size());
  Array<Word> in(host), out(host.size()), total(1);
  app::twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceReduce::Sum(scratch, bytes, in.get(), total.get(), n);
  });
  bool good = report("reduce", total.read(1)[0] == std::accumulate(host.begin(), host.end(), 0U));
  app::twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(scratch, bytes, in.get(), out.get(), n);
  });
  std::vector<Word> want(host.size());
  std::partial_sum(host.begin(), host.end(), want.begin());
  good &= report("scan", out.read(host.size()) == want);
  app::twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSelect::If(scratch, bytes, in.get(), out.get(), total.get(), n, Odd());
  });
  want.clear();
  for (Word x : host) {
    if ((x & 1) != 0) want.push_back(x);
  }
  return good & report("select", total.read(1)[0] == want.size() && out.read(want.size()) == want);
}

bool check_runs(std::vector<Word> host) {
  for (Word& x : host) x = x >> 30;
  const int n = static_cast<int>(host.size());
  Array<Word> in(host), values(host.size()), lengths(host.size()), count(1);
  app::twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(scratch, bytes, in.get(), values.get(), lengths.get(),
                                              count.get(), n);
  });
  std::vector<Word> want_values, want_lengths;
  for (size_t i = 0; i < host.size(); ++i) {
    if (i == 0 || host[i] != host[i - 1]) want_values.push_back(host[i]), want_lengths.push_back(0);
    ++want_lengths.back();
  }
  const size_t runs = count.read(1)[0];
  return report("run lengths", runs == want_values.size() && values.read(runs) == want_values &&
                                   lengths.read(runs) == want_lengths);
}

bool check_sort(const std::vector<Word>& host) {
  const int n = static_cast<int>(host.size());
  std::vector<Word> order(host.size());
  std::iota(order.begin(), order.end(), 0U);
  Array<Word> keys(host), values(order), sorted(host.size()), moved(host.size());
  app::twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys.get(), sorted.get(), values.get(),
                                           moved.get(), n);
  });
  std::stable_sort(order.begin(), order.end(), [&](Word a, Word b) { return host[a] < host[b]; });
  std::vector<Word> want(host.size());
  for (size_t i = 0; i < host.size(); ++i) want[i] = host[order[i]];
  return report("sort", sorted.read(host.size()) == want && moved.read(host.size()) == order);
}

}  // namespace

// --large: 16 M elements. --sort: the radix sort, too, whose kernel takes long to compile.
int main(int argc, char** argv) {
  const size_t count = app::elements(argc, argv, 300007);
  app::Random random(11);
  std::vector<Word> host(count);
  for (Word& x : host) x = static_cast<Word>(random.next() >> 32);
  bool good = check_sums(host);
  good &= check_runs(host);
  if (app::wants(argc, argv, "--sort")) good &= check_sort(host);
  return app::finish("cub_device", good);
}
