// Thrust: sorts, sets, merges, searches and what else is about order.
// SPDX-License-Identifier: Apache-2.0
#include <thrust/binary_search.h>
#include <thrust/device_vector.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

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

struct Third {
  __host__ __device__ bool operator()(Word x) const { return x % 3 == 0; }
};

bool check_sorts(const Words& host) {
  Device values(host);
  thrust::sort(values.begin(), values.end());
  Words want = host;
  std::sort(want.begin(), want.end());
  bool good = report("sort", read(values) == want);
  thrust::sort(values.begin(), values.end(), thrust::greater<Word>());
  std::reverse(want.begin(), want.end());
  good &= report("sort, falling", read(values) == want);
  Words keys(host), order(host.size());
  for (Word& key : keys) key %= 211;
  std::iota(order.begin(), order.end(), 0U);
  Device device_keys(keys), places(order);
  thrust::stable_sort_by_key(device_keys.begin(), device_keys.end(), places.begin());
  std::stable_sort(order.begin(), order.end(), [&](Word a, Word b) { return keys[a] < keys[b]; });
  std::sort(keys.begin(), keys.end());
  good &= report("stable sort by key", read(device_keys) == keys && read(places) == order);
  const size_t left =
      thrust::unique_by_key(device_keys.begin(), device_keys.end(), places.begin()).first -
      device_keys.begin();
  Words first_keys, first_places;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1]) {
      first_keys.push_back(keys[i]);
      first_places.push_back(order[i]);
    }
  }
  return good & report("unique by key", left == first_keys.size() &&
                                            read(device_keys, left) == first_keys &&
                                            read(places, left) == first_places);
}

bool check_sets(Words a, Words b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const Device left(a), right(b);
  Device out(a.size() + b.size());
  bool good = true;
  const auto check = [&](const char* name, auto end, const Words& want) {
    const size_t count = end - out.begin();
    good &= report(name, count == want.size() && read(out, count) == want);
  };
  Words want;
  const auto fresh = [&want] { return want.clear(), std::back_inserter(want); };
  const auto l = left.begin(), le = left.end(), r = right.begin(), re = right.end();
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), fresh());
  check("union", thrust::set_union(l, le, r, re, out.begin()), want);
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), fresh());
  check("intersection", thrust::set_intersection(l, le, r, re, out.begin()), want);
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), fresh());
  check("difference", thrust::set_difference(l, le, r, re, out.begin()), want);
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), fresh());
  check("symmetric difference", thrust::set_symmetric_difference(l, le, r, re, out.begin()), want);
  std::merge(a.begin(), a.end(), b.begin(), b.end(), fresh());
  check("merge", thrust::merge(l, le, r, re, out.begin()), want);
  Device found(a.size());
  thrust::lower_bound(r, re, l, le, found.begin());
  Words places;
  for (Word x : a) {
    places.push_back(static_cast<Word>(std::lower_bound(b.begin(), b.end(), x) - b.begin()));
  }
  return good & report("lower bounds", read(found) == places);
}

bool check_order(const Words& host) {
  Device values(host);
  const size_t kept =
      thrust::stable_partition(values.begin(), values.end(), Third()) - values.begin();
  Words want = host;
  const size_t want_kept = std::stable_partition(want.begin(), want.end(), Third()) - want.begin();
  bool good = report("stable partition", kept == want_kept && read(values) == want);
  const size_t runs = thrust::unique(values.begin(), values.end()) - values.begin();
  want.erase(std::unique(want.begin(), want.end()), want.end());
  good &= report("unique", runs == want.size() && read(values, runs) == want);
  return good & report("is sorted", !thrust::is_sorted(values.begin(), values.begin() + runs));
}

}  // namespace

// --large: 16 M elements.
int main(int argc, char** argv) {
  const size_t count = app::elements(argc, argv, 30011);
  bool good = check_sorts(app::numbers(count, 4000000007U, 51));
  good &= check_sets(app::numbers(count, static_cast<Word>(count), 52),
                     app::numbers(count / 2, static_cast<Word>(count), 53));
  good &= check_order(app::numbers(count, 7, 54));
  return app::finish("thrust_sort", good);
}
