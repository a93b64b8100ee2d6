// CUB inside a block and a warp: every algorithm of reduce, scan and load, sorts, ranks, exchanges.
// SPDX-License-Identifier: Apache-2.0
#include <cub/cub.cuh>

#include <numeric>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;
using Word = unsigned;
using Words = std::vector<Word>;

constexpr int kThreads = 128, kItems = 5, kTile = kThreads * kItems, kBlocks = 7;

struct Less {
  __device__ bool operator()(Word a, Word b) const { return a < b; }
};

template <cub::BlockReduceAlgorithm algorithm>
__global__ void block_reduce(const Word* in, Word* out) {
  using Reduce = cub::BlockReduce<Word, kThreads, algorithm>;
  __shared__ typename Reduce::TempStorage storage;
  Word mine[kItems];
  cub::LoadDirectBlocked(static_cast<int>(threadIdx.x), in + blockIdx.x * kTile, mine);
  const Word sum = Reduce(storage).Sum(mine);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <cub::BlockScanAlgorithm algorithm, cub::BlockLoadAlgorithm loading,
          cub::BlockStoreAlgorithm storing>
__global__ void block_scan(const Word* in, Word* out) {
  using Load = cub::BlockLoad<Word, kThreads, kItems, loading>;
  using Scan = cub::BlockScan<Word, kThreads, algorithm>;
  using Store = cub::BlockStore<Word, kThreads, kItems, storing>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Scan::TempStorage scan;
    typename Store::TempStorage store;
  } storage;
  Word mine[kItems];
  Load(storage.load).Load(in + blockIdx.x * kTile, mine);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(mine, mine);
  __syncthreads();
  Store(storage.store).Store(out + blockIdx.x * kTile, mine);
}

enum class Sort { kRadix, kMerge, kStriped };

template <Sort sort>
__global__ void block_sort(const Word* in, Word* out) {
  using Radix = cub::BlockRadixSort<Word, kThreads, kItems>;
  using Merge = cub::BlockMergeSort<Word, kThreads, kItems>;
  using Exchange = cub::BlockExchange<Word, kThreads, kItems>;
  __shared__ union {
    typename Radix::TempStorage radix;
    typename Merge::TempStorage merge;
    typename Exchange::TempStorage exchange;
  } storage;
  const int thread = static_cast<int>(threadIdx.x);
  Word mine[kItems];
  cub::LoadDirectBlocked(thread, in + blockIdx.x * kTile, mine);
  if constexpr (sort == Sort::kRadix) Radix(storage.radix).Sort(mine);
  if constexpr (sort == Sort::kMerge) Merge(storage.merge).Sort(mine, Less());
  if constexpr (sort == Sort::kStriped) {
    Radix(storage.radix).SortBlockedToStriped(mine);
    __syncthreads();
    Exchange(storage.exchange).StripedToBlocked(mine, mine);
  }
  cub::StoreDirectBlocked(thread, out + blockIdx.x * kTile, mine);
}

// Heads of runs, and how often each value is there.
template <cub::BlockHistogramAlgorithm algorithm>
__global__ void block_runs(const Word* in, Word* heads, Word* histogram) {
  using Runs = cub::BlockDiscontinuity<Word, kThreads>;
  using Counts = cub::BlockHistogram<Word, kThreads, kItems, 16, algorithm>;
  __shared__ union {
    typename Runs::TempStorage runs;
    typename Counts::TempStorage counts;
  } storage;
  __shared__ Word bins[16];
  const int thread = static_cast<int>(threadIdx.x);
  Word mine[kItems], flags[kItems];
  cub::LoadDirectBlocked(thread, in + blockIdx.x * kTile, mine);
  Runs(storage.runs).FlagHeads(flags, mine, cuda::std::not_equal_to<>());
  cub::StoreDirectBlocked(thread, heads + blockIdx.x * kTile, flags);
  __syncthreads();
  Counts(storage.counts).Histogram(mine, bins);
  __syncthreads();
  if (thread < 16) histogram[blockIdx.x * 16 + thread] = bins[thread];
}

// Eight lanes work together: their sum, their running maximum, their values sorted.
__global__ void warps(const Word* in, Word* sums, Word* maxima, Word* sorted) {
  constexpr int kLanes = 8, kGroups = kThreads / kLanes;
  using Reduce = cub::WarpReduce<Word, kLanes>;
  using Scan = cub::WarpScan<Word, kLanes>;
  using Sort = cub::WarpMergeSort<Word, 1, kLanes>;
  __shared__ typename Reduce::TempStorage reduce[kGroups];
  __shared__ typename Scan::TempStorage scan[kGroups];
  __shared__ typename Sort::TempStorage sort[kGroups];
  const int i = blockIdx.x * kThreads + threadIdx.x, group = threadIdx.x / kLanes;
  const Word sum = Reduce(reduce[group]).Sum(in[i]);
  if (i % kLanes == 0) sums[i / kLanes] = sum;
  Scan(scan[group]).InclusiveScan(in[i], maxima[i], cuda::maximum<>());
  Word mine[1] = {in[i]};
  Sort(sort[group]).Sort(mine, Less());
  sorted[i] = mine[0];
}

template <typename Kernel>
Words blocks(Kernel kernel, const Words& host, size_t results) {
  Array<Word> in(host), out(results);
  kernel<<<kBlocks, kThreads>>>(in.get(), out.get());
  CHECKED(cudaGetLastError());
  return out.read();
}

bool check_sums(const Words& host) {
  Words sums, scan(host.size());
  for (int b = 0; b < kBlocks; ++b) {
    const auto begin = host.begin() + b * kTile, end = begin + kTile;
    sums.push_back(std::accumulate(begin, end, 0U));
    std::partial_sum(begin, end, scan.begin() + b * kTile);
  }
  using cub::BLOCK_REDUCE_RAKING, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY;
  bool good =
      report("reduce: raking", blocks(block_reduce<BLOCK_REDUCE_RAKING>, host, kBlocks) == sums);
  good &= report("reduce: raking, commutative",
                 blocks(block_reduce<BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>, host, kBlocks) == sums);
  good &= report("reduce: warps",
                 blocks(block_reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>, host, kBlocks) == sums);
  using cub::BLOCK_LOAD_DIRECT, cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_LOAD_TRANSPOSE;
  using cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED, cub::BLOCK_STORE_WARP_TRANSPOSE;
  using cub::BLOCK_SCAN_RAKING, cub::BLOCK_SCAN_RAKING_MEMOIZE, cub::BLOCK_SCAN_WARP_SCANS;
  using cub::BLOCK_STORE_DIRECT, cub::BLOCK_STORE_VECTORIZE, cub::BLOCK_STORE_TRANSPOSE;
  good &= report("scan: raking, direct",
                 blocks(block_scan<BLOCK_SCAN_RAKING, BLOCK_LOAD_DIRECT, BLOCK_STORE_DIRECT>, host,
                        host.size()) == scan);
  good &= report(
      "scan: memoize, vectors",
      blocks(block_scan<BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_LOAD_VECTORIZE, BLOCK_STORE_VECTORIZE>,
             host, host.size()) == scan);
  good &=
      report("scan: warps, transposed",
             blocks(block_scan<BLOCK_SCAN_WARP_SCANS, BLOCK_LOAD_TRANSPOSE, BLOCK_STORE_TRANSPOSE>,
                    host, host.size()) == scan);
  return good &
         report("scan: warps, transposed in warps",
                blocks(block_scan<BLOCK_SCAN_WARP_SCANS, BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
                                  BLOCK_STORE_WARP_TRANSPOSE>,
                       host, host.size()) == scan);
}

bool check_sorts(const Words& host) {
  Words want = host;
  for (int b = 0; b < kBlocks; ++b) {
    std::sort(want.begin() + b * kTile, want.begin() + (b + 1) * kTile);
  }
  bool good = report("radix sort", blocks(block_sort<Sort::kRadix>, host, host.size()) == want);
  good &= report("merge sort", blocks(block_sort<Sort::kMerge>, host, host.size()) == want);
  return good &
         report("striped sort", blocks(block_sort<Sort::kStriped>, host, host.size()) == want);
}

template <cub::BlockHistogramAlgorithm algorithm>
bool check_runs(const char* name, const Words& host) {
  Words want_heads(host.size()), want_counts(kBlocks * 16);
  for (size_t i = 0; i < host.size(); ++i) {
    want_heads[i] = static_cast<Word>(i % kTile == 0 || host[i] != host[i - 1]);
    ++want_counts[i / kTile * 16 + host[i]];
  }
  Array<Word> in(host), heads(host.size()), counts(want_counts.size());
  block_runs<algorithm><<<kBlocks, kThreads>>>(in.get(), heads.get(), counts.get());
  CHECKED(cudaGetLastError());
  return report(name, heads.read() == want_heads && counts.read() == want_counts);
}

bool check_warps(const Words& all) {
  const Words host(all.begin(), all.begin() + kBlocks * kThreads);
  Words want_sums, want_maxima = host, want_sorted = host;
  for (size_t i = 0; i < host.size(); i += 8) {
    want_sums.push_back(std::accumulate(host.begin() + i, host.begin() + i + 8, 0U));
    for (size_t j = i + 1; j < i + 8; ++j) want_maxima[j] = std::max(host[j], want_maxima[j - 1]);
    std::sort(want_sorted.begin() + i, want_sorted.begin() + i + 8);
  }
  Array<Word> in(host), sums(want_sums.size()), maxima(host.size()), sorted(host.size());
  warps<<<kBlocks, kThreads>>>(in.get(), sums.get(), maxima.get(), sorted.get());
  CHECKED(cudaGetLastError());
  return report("groups of eight lanes", sums.read() == want_sums && maxima.read() == want_maxima &&
                                             sorted.read() == want_sorted);
}

}  // namespace

int main() {
  const Words host = app::numbers(kBlocks * kTile, 1U << 31, 41);
  const Words few = app::numbers(kBlocks * kTile, 16, 42);
  bool good = check_sums(host);
  good &= check_sorts(host);
  good &= check_runs<cub::BLOCK_HISTO_ATOMIC>("runs, histogram by atomics", few);
  good &= check_runs<cub::BLOCK_HISTO_SORT>("runs, histogram by sorting", few);
  good &= check_warps(host);
  return app::finish("cub_block", good);
}
