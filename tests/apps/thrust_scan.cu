// Thrust: scans, reductions, by key too, transformations, searches, copies with conditions.
// SPDX-License-Identifier: Apache-2.0
#include <thrust/adjacent_difference.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/find.h>
#include <thrust/gather.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/tabulate.h>
#include <thrust/transform_reduce.h>

#include <numeric>

#include "cub_app.h"

namespace {

using app::report;
using Word = unsigned;
using Words = std::vector<Word>;
using Device = thrust::device_vector<Word>;

Words read(const Device& from, size_t count) {
  Words host(count);
  thrust::copy_n(from.begin(), count, host.begin());
  return host;
}
Words read(const Device& from) { return read(from, from.size()); }

struct Even {
  __host__ __device__ bool operator()(Word x) const { return x % 2 == 0; }
};
struct Square {
  __host__ __device__ uint64_t operator()(Word x) const { return uint64_t{x} * x; }
};
struct Is {
  Word what;
  __host__ __device__ bool operator()(Word x) const { return x == what; }
};
struct Random {
  __host__ __device__ Word operator()(size_t i) const {
    thrust::minstd_rand engine;
    engine.discard(i);
    return thrust::uniform_int_distribution<Word>(0, 999)(engine);
  }
};

bool check_scans(const Words& host, const Words& keys) {
  const Device in(host), key(keys);
  Device out(host.size()), unique(host.size());
  thrust::inclusive_scan(in.begin(), in.end(), out.begin(), thrust::maximum<Word>());
  Words want(host.size());
  std::partial_sum(host.begin(), host.end(), want.begin(),
                   [](Word a, Word b) { return std::max(a, b); });
  bool good = report("scan of maxima", read(out) == want);
  thrust::exclusive_scan(in.begin(), in.end(), out.begin(), 5U);
  want[0] = 5;
  for (size_t i = 1; i < host.size(); ++i) want[i] = want[i - 1] + host[i - 1];
  good &= report("exclusive scan", read(out) == want);
  thrust::inclusive_scan_by_key(key.begin(), key.end(), in.begin(), out.begin());
  for (size_t i = 0; i < host.size(); ++i) {
    want[i] = host[i] + (i > 0 && keys[i] == keys[i - 1] ? want[i - 1] : 0);
  }
  good &= report("scan by key", read(out) == want);
  const size_t runs =
      thrust::reduce_by_key(key.begin(), key.end(), in.begin(), unique.begin(), out.begin()).first -
      unique.begin();
  Words want_keys, want_sums;
  for (size_t i = 0; i < host.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1]) want_keys.push_back(keys[i]), want_sums.push_back(0);
    want_sums.back() += host[i];
  }
  return good &
         report("reduce by key", runs == want_keys.size() && read(unique, runs) == want_keys &&
                                     read(out, runs) == want_sums);
}

bool check_reductions(const Words& host) {
  const Device in(host);
  const uint64_t squares = thrust::transform_reduce(in.begin(), in.end(), Square(), uint64_t{0},
                                                    thrust::plus<uint64_t>());
  uint64_t want = 0;
  for (Word x : host) want += Square()(x);
  bool good = report("transform and reduce", squares == want);
  const uint64_t product =
      thrust::inner_product(in.begin(), in.end() - 1, in.begin() + 1, uint64_t{0});
  want = 0;
  for (size_t i = 1; i < host.size(); ++i) want += uint64_t{host[i - 1]} * host[i];
  good &= report("inner product", product == want);
  const auto ends = thrust::minmax_element(in.begin(), in.end());
  good &= report(
      "smallest and largest",
      ends.first - in.begin() == std::min_element(host.begin(), host.end()) - host.begin() &&
          ends.second - in.begin() == std::max_element(host.begin(), host.end()) - host.begin());
  good &= report("count", thrust::count_if(in.begin(), in.end(), Even()) ==
                              std::count_if(host.begin(), host.end(), Even()));
  const Word rare = host[host.size() * 3 / 4];
  return good & report("find", thrust::find_if(in.begin(), in.end(), Is{rare}) - in.begin() ==
                                   std::find(host.begin(), host.end(), rare) - host.begin());
}

bool check_moves(const Words& host) {
  Device in(host), out(host.size()), places(host.size());
  const size_t kept = thrust::copy_if(in.begin(), in.end(), out.begin(), Even()) - out.begin();
  Words want;
  std::copy_if(host.begin(), host.end(), std::back_inserter(want), Even());
  bool good = report("copy if", kept == want.size() && read(out, kept) == want);
  thrust::sequence(places.begin(), places.end());
  thrust::reverse(places.begin(), places.end());
  thrust::gather(places.begin(), places.end(), in.begin(), out.begin());
  want.assign(host.rbegin(), host.rend());
  good &= report("gather", read(out) == want);
  thrust::adjacent_difference(in.begin(), in.end(), out.begin());
  std::adjacent_difference(host.begin(), host.end(), want.begin());
  good &= report("differences", read(out) == want);
  const auto pairs = thrust::make_zip_iterator(in.begin(), places.begin());
  thrust::transform(pairs, pairs + in.size(), out.begin(),
                    thrust::make_zip_function(thrust::plus<Word>()));
  for (size_t i = 0; i < host.size(); ++i)
    want[i] = host[i] + static_cast<Word>(host.size() - i) - 1;
  good &= report("zip", read(out) == want);
  thrust::tabulate(out.begin(), out.end(), Random());
  for (size_t i = 0; i < host.size(); ++i) want[i] = i % 64 == 0 ? Random()(i) : 0;
  const Words made = read(out);
  bool same = true;
  for (size_t i = 0; i < host.size(); i += 64) same &= made[i] == want[i];
  return good & report("random numbers", same);
}

}  // namespace

// --large: 16 M elements.
int main(int argc, char** argv) {
  const size_t count = app::elements(argc, argv, 40009);
  Words keys = app::numbers(count, 9, 62);
  for (size_t i = 1; i < count; ++i) {
    if (keys[i] > 2) keys[i] = keys[i - 1];
  }
  const Words host = app::numbers(count, 1000003, 61);
  bool good = check_scans(host, keys);
  good &= check_reductions(host);
  good &= check_moves(host);
  return app::finish("thrust_scan", good);
}
