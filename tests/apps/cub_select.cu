// CUB over the whole device: select, partition, histograms, by-key scans and reductions,
// neighbours. SPDX-License-Identifier: Apache-2.0
#include <cub/cub.cuh>

#include <map>
#include <numeric>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;
using app::twice;
using Word = unsigned;
using Words = std::vector<Word>;

struct Below {
  Word limit;
  __host__ __device__ bool operator()(Word x) const { return x < limit; }
};

struct Greater {
  __host__ __device__ Word operator()(Word a, Word b) const { return a > b ? a : b; }
};

bool check_select(const Words& host) {
  const int n = static_cast<int>(host.size());
  Words flags(host.size());
  for (size_t i = 0; i < flags.size(); ++i) flags[i] = static_cast<Word>(i % 3 == 0);
  Array<Word> in(host), marks(flags), out(host.size()), order(host.size()), count(1);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSelect::Flagged(scratch, bytes, in.get(), marks.get(), out.get(), count.get(),
                                      n);
  });
  Words want;
  for (size_t i = 0; i < host.size(); i += 3) want.push_back(host[i]);
  bool good = report("select flagged", count.first() == want.size() &&  //
                                           out.read(want.size()) == want);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSelect::Unique(scratch, bytes, in.get(), out.get(), count.get(), n);
  });
  want = host;
  want.erase(std::unique(want.begin(), want.end()), want.end());
  good &= report("unique", count.first() == want.size() && out.read(want.size()) == want);
  Words places(host.size());
  std::iota(places.begin(), places.end(), 0U);
  Array<Word> values(places);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceSelect::UniqueByKey(scratch, bytes, in.get(), values.get(), out.get(),
                                          order.get(), count.get(), n);
  });
  Words firsts;
  for (size_t i = 0; i < host.size(); ++i) {
    if (i == 0 || host[i] != host[i - 1]) firsts.push_back(static_cast<Word>(i));
  }
  return good & report("unique by key", out.read(want.size()) == want &&  //
                                            order.read(firsts.size()) == firsts);
}

// What is kept goes to the front in order, the rest to the back in reverse.
bool check_partition(const Words& host, Word limit) {
  const int n = static_cast<int>(host.size());
  Array<Word> in(host), out(host.size()), count(1);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DevicePartition::If(scratch, bytes, in.get(), out.get(), count.get(), n,
                                    Below{limit / 3});
  });
  Words want, rest;
  for (Word x : host) (x < limit / 3 ? want : rest).push_back(x);
  const size_t kept = want.size();
  want.insert(want.end(), rest.rbegin(), rest.rend());
  bool good = report("partition", count.first() == kept && out.read() == want);
  Array<Word> small(host.size()), large(host.size()), middle(host.size()), counts(2);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DevicePartition::If(scratch, bytes, in.get(), small.get(), large.get(),
                                    middle.get(), counts.get(), n, Below{limit / 4},
                                    Below{limit / 2});
  });
  Words parts[3];
  for (Word x : host) parts[x < limit / 4 ? 0 : x < limit / 2 ? 1 : 2].push_back(x);
  return good &
         report("partition in three", counts.read() == Words{static_cast<Word>(parts[0].size()),
                                                             static_cast<Word>(parts[1].size())} &&
                                          small.read(parts[0].size()) == parts[0] &&
                                          large.read(parts[1].size()) == parts[1] &&
                                          middle.read(parts[2].size()) == parts[2]);
}

bool check_histogram(const Words& host, Word limit) {
  const int n = static_cast<int>(host.size());
  constexpr int kBins = 100;
  Array<Word> in(host);
  Array<int> bins(kBins);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(scratch, bytes, in.get(), bins.get(), kBins + 1, 0U,
                                               limit, n);
  });
  std::vector<int> want(kBins);
  for (Word x : host) ++want[static_cast<size_t>(x) * kBins / limit];
  bool good = report("histogram even", bins.read() == want);
  const Words bounds{0, limit / 50, limit / 9, limit / 2, limit - limit / 10, limit};
  Array<Word> levels(bounds);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceHistogram::HistogramRange(scratch, bytes, in.get(), bins.get(),
                                                static_cast<int>(bounds.size()), levels.get(), n);
  });
  std::vector<int> ranges(bounds.size() - 1);
  for (Word x : host) {
    ++ranges[std::upper_bound(bounds.begin(), bounds.end(), x) - bounds.begin() - 1];
  }
  good &= report("histogram of ranges", bins.read(ranges.size()) == ranges);
  std::vector<unsigned char> pixels(host.size() / 4 * 4);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<unsigned char>(host[i]);
  Array<unsigned char> image(pixels);
  Array<int> red(256), green(256), blue(256);
  const cuda::std::array<int*, 3> channels{red.get(), green.get(), blue.get()};
  const cuda::std::array<int, 3> counts{257, 257, 257}, low{0, 0, 0}, high{256, 256, 256};
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceHistogram::MultiHistogramEven<4, 3>(scratch, bytes, image.get(), channels,
                                                          counts, low, high, n / 4);
  });
  std::vector<int> channel[3];
  for (auto& one : channel) one.resize(256);
  for (size_t i = 0; i < pixels.size(); ++i) {
    if (i % 4 < 3) ++channel[i % 4][pixels[i]];
  }
  return good &
         report("histogram of an image", red.read() == channel[0] && green.read() == channel[1] &&
                                             blue.read() == channel[2]);
}

bool check_by_key(const Words& keys, const Words& host) {
  const int n = static_cast<int>(host.size());
  Array<Word> key(keys), in(host), out(host.size()), unique(host.size()), count(1);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceReduce::ReduceByKey(scratch, bytes, key.get(), unique.get(), in.get(),
                                          out.get(), count.get(), Greater(), n);
  });
  Words want_keys, want;
  for (size_t i = 0; i < host.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1]) want_keys.push_back(keys[i]), want.push_back(0);
    want.back() = std::max(want.back(), host[i]);
  }
  const size_t runs = want.size();
  bool good = report("reduce by key", count.first() == runs && unique.read(runs) == want_keys &&
                                          out.read(runs) == want);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSumByKey(scratch, bytes, key.get(), in.get(), out.get(), n);
  });
  want.assign(host.size(), 0);
  for (size_t i = 1; i < host.size(); ++i) {
    want[i] = keys[i] == keys[i - 1] ? want[i - 1] + host[i - 1] : 0;
  }
  good &= report("sum by key", out.read() == want);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(scratch, bytes, in.get(), out.get(), Greater(), 7U, n);
  });
  want[0] = 7;
  for (size_t i = 1; i < host.size(); ++i) want[i] = std::max(want[i - 1], host[i - 1]);
  good &= report("scan of maxima", out.read() == want);
  twice([&](void* scratch, size_t& bytes) {
    return cub::DeviceAdjacentDifference::SubtractLeftCopy(scratch, bytes, in.get(), out.get(), n);
  });
  std::adjacent_difference(host.begin(), host.end(), want.begin());
  return good & report("differences", out.read() == want);
}

}  // namespace

// --large: 16 M elements.
int main(int argc, char** argv) {
  const size_t count = app::elements(argc, argv, 70001);
  const Word limit = 1000;
  const Words host = app::numbers(count, limit, 21);
  Words keys = app::numbers(count, 5, 22);  // runs, short and long
  for (size_t i = 1; i < count; ++i) {
    if (host[i] % 4 != 0 || (i / 8192) % 2 != 0) keys[i] = keys[i - 1];
  }
  bool good = check_select(keys);
  good &= check_partition(host, limit);
  good &= check_histogram(host, limit);
  good &= check_by_key(keys, host);
  return app::finish("cub_select", good);
}
