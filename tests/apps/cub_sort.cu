// CUB over the whole device: radix and merge sorts, segmented sorts and reductions, extremes.
// SPDX-License-Identifier: Apache-2.0
#include <cub/cub.cuh>

#include <numeric>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;
using app::twice;
using Word = unsigned;
using Words = std::vector<Word>;

struct Less {
  template <typename T>
  __host__ __device__ bool operator()(const T& a, const T& b) const {
    return a < b;
  }
};

// Places in the order of their keys, equal keys in the order they had.
template <typename Key>
Words stable_order(const std::vector<Key>& keys) {
  Words order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](Word a, Word b) { return keys[a] < keys[b]; });
  return order;
}

bool check_radix(const Words& host) {
  const int n = static_cast<int>(host.size());
  Words places(host.size());
  std::iota(places.begin(), places.end(), 0U);
  Array<Word> keys(host), values(places), sorted(host.size()), moved(host.size());
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys.get(), sorted.get(), values.get(),
                                           moved.get(), n);
  });
  Words want = host;
  std::sort(want.begin(), want.end());
  bool good =
      report("radix sort of pairs", sorted.read() == want && moved.read() == stable_order(host));
  std::vector<float> floats(host.size());
  for (size_t i = 0; i < host.size(); ++i) {
    floats[i] = (static_cast<float>(host[i]) - 2e9F) / 3.0F;
  }
  Array<float> real(floats), falling(floats.size());
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeysDescending(scratch, bytes, real.get(), falling.get(), n);
  });
  std::sort(floats.rbegin(), floats.rend());
  return good & report("radix sort of floats, falling", falling.read() == floats);
}

bool check_merge(const Words& host) {
  const int n = static_cast<int>(host.size());
  std::vector<uint64_t> wide(host.size());
  for (size_t i = 0; i < host.size(); ++i) wide[i] = uint64_t{host[i] % 977U} << 33 | 5U;
  Words places(host.size());
  std::iota(places.begin(), places.end(), 0U);
  Array<uint64_t> keys(wide);
  Array<Word> values(places);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceMergeSort::StableSortPairs(scratch, bytes, keys.get(), values.get(), n,
                                                 Less());
  });
  const Words order = stable_order(wide);
  std::sort(wide.begin(), wide.end());
  bool good = report("merge sort of pairs", keys.read() == wide && values.read() == order);
  const size_t half = host.size() / 3;
  Words left(host.begin(), host.begin() + half), right(host.begin() + half, host.end());
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  Array<Word> a(left), b(right), out(host.size());
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceMerge::MergeKeys(scratch, bytes, a.get(), static_cast<int>(left.size()),
                                       b.get(), static_cast<int>(right.size()), out.get(), Less());
  });
  Words want(host.size());
  std::merge(left.begin(), left.end(), right.begin(), right.end(), want.begin());
  return good & report("merge", out.read() == want);
}

bool check_segments(const Words& host) {
  std::vector<int> bounds{0};  // empty, small and large ones
  const int n = static_cast<int>(host.size());
  for (int length = 0; bounds.back() < n; length = length * 3 % 4001 + 1) {
    bounds.push_back(std::min(n, bounds.back() + length));
  }
  const int segments = static_cast<int>(bounds.size()) - 1;
  Array<Word> in(host), out(host.size()), sums(bounds.size());
  Array<int> begins(bounds);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSegmentedSort::SortKeys(scratch, bytes, in.get(), out.get(), n, segments,
                                              begins.get(), begins.get() + 1);
  });
  Words want = host, want_sums;
  for (int i = 0; i < segments; ++i) {
    std::sort(want.begin() + bounds[i], want.begin() + bounds[i + 1]);
    want_sums.push_back(
        std::accumulate(host.begin() + bounds[i], host.begin() + bounds[i + 1], 0U));
  }
  bool good = report("segmented sort", out.read() == want);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSegmentedRadixSort::SortKeys(scratch, bytes, in.get(), out.get(), n, segments,
                                                   begins.get(), begins.get() + 1);
  });
  good &= report("segmented radix sort", out.read() == want);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSegmentedReduce::Sum(scratch, bytes, in.get(), sums.get(), segments,
                                           begins.get(), begins.get() + 1);
  });
  return good & report("segmented sum", sums.read(want_sums.size()) == want_sums);
}

bool check_extremes(const Words& host) {
  const int n = static_cast<int>(host.size());
  Array<Word> in(host), value(1);
  Array<int64_t> place(1);
  const auto smallest = std::min_element(host.begin(), host.end());
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceReduce::ArgMin(scratch, bytes, in.get(), value.get(), place.get(),
                                     static_cast<int64_t>(n));
  });
  return report("smallest and its place",
                value.first() == *smallest && place.first() == smallest - host.begin());
}

}  // namespace

// --large: 16 M elements.
int main(int argc, char** argv) {
  const size_t count = app::elements(argc, argv, 50003);
  const Words host = app::numbers(count, 4000000007U, 31);
  bool good = check_radix(host);
  good &= check_merge(host);
  good &= check_segments(host);
  good &= check_extremes(host);
  return app::finish("cub_sort", good);
}
