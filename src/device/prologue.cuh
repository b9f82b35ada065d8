#pragma once

// How the blocks of the prologue make a table together. What a segment becomes is said in
// place.hpp; here is only who does it: one thread for each segment of a tile, then one for each
// entry, twice: once to count the entries of each bucket of cost, once to write each at its place.

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#include "device/place.hpp"
#include "device/table.hpp"

namespace ragged::device {
namespace {

constexpr int kThreads = 1024;
constexpr int kTile = kThreads;  // segments that a block looks at together, one a thread
constexpr unsigned kAllLanes = 0xffffffffU;

// Where blocks meet, in StepArgs::shared.
struct Meeting {
  std::uint32_t counts[kBuckets];  // units of each bucket
  std::uint32_t taken[kBuckets];   // places of each bucket that blocks have taken
  unsigned long long fault;
  unsigned long long num_units;
  unsigned long long slots;  // of partial results, granted so far
};
static_assert(sizeof(Meeting) <= kSharedWords * sizeof(std::uint32_t));

struct Memory {
  Span spans[kTile];
  std::int32_t slots[kTile];
  std::uint32_t first[kTile];  // first entry of each segment, among those of the tile
  std::uint32_t counts[kBuckets];
  std::uint32_t warps[32];
  std::uint32_t rule_first[kMaxTileRules + 1];
  unsigned long long fault;
  unsigned long long num_units;
  unsigned long long slots_taken;
};

// Every block of the launch has come here; writes of each are seen by all.
__device__ __forceinline__ void meet() {
  if (gridDim.x == 1) {
    __syncthreads();
  } else {
    cooperative_groups::this_grid().sync();
  }
}

// Sum of `value` over the threads before this one, and over all of them.
__device__ std::uint32_t scan(Memory& m, std::uint32_t value, std::uint32_t& total) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  std::uint32_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const std::uint32_t below = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += below;
  }
  if (lane == 31) m.warps[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    std::uint32_t of_warp = m.warps[lane];
    for (int step = 1; step < 32; step *= 2) {
      const std::uint32_t below = __shfl_up_sync(kAllLanes, of_warp, step);
      if (lane >= step) of_warp += below;
    }
    m.warps[lane] = of_warp;
  }
  __syncthreads();
  total = m.warps[31];
  const std::uint32_t before = warp == 0 ? 0 : m.warps[warp - 1];
  __syncthreads();
  return before + sum - value;
}

// Takes one place of a counter in shared memory; threads of a warp that want the same one take
// theirs together.
__device__ __forceinline__ std::uint32_t take(std::uint32_t* counters, std::int32_t which) {
  const unsigned peers = __match_any_sync(__activemask(), which);
  const unsigned lane = threadIdx.x % 32;
  const int leader = __ffs(static_cast<int>(peers)) - 1;
  std::uint32_t base = 0;
  if (static_cast<int>(lane) == leader) {
    base = atomicAdd(counters + which, static_cast<std::uint32_t>(__popc(peers)));
  }
  base = __shfl_sync(peers, base, leader);
  return base + static_cast<std::uint32_t>(__popc(peers & ((1U << lane) - 1)));
}

class Prologue {
 public:
  __device__ Prologue(const StepArgs& args, Memory& m)
      : args_(args),
        m_(m),
        meeting_(*reinterpret_cast<Meeting*>(args.shared)),
        num_tiles_((args.num_segments + kTile - 1) / kTile),
        stays_(num_tiles_ <= static_cast<int>(gridDim.x)) {}

  __device__ void make() {
    clear();
    if (finds_fault()) return;
    const unsigned long long num_units = count_units();
    if (num_units > static_cast<unsigned long long>(args_.max_units)) {
      TableHeader header;
      describe_overflow(args_, static_cast<std::int64_t>(num_units), header);
      if (first_thread()) publish_fault(header);
      return;
    }
    split_ = splits_keys(args_.tiles) && may_split(args_, static_cast<std::int64_t>(num_units));
    // What a thread finds out about its first entries it keeps, where its block has no other tile.
    std::int32_t buckets[kKept] = {};
    std::uint32_t ranks[kKept] = {};
    for_entries(true, [&](const Entry& entry) {
      const std::int32_t bucket = bucket_of(args_.mask, entry.cut, unit_of(entry));
      const std::uint32_t rank = take(m_.counts, bucket);
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        if (entry.round == i) {
          buckets[i] = bucket;
          ranks[i] = rank;
        }
      }
    });
    start_buckets();
    const bool kept = stays_ && num_entries_ <= kKept * kThreads;
    for_entries(false, [&](const Entry& entry) {
      const Unit unit = unit_of(entry);
      std::uint32_t place = 0;
      if (kept) {
#pragma unroll
        for (int i = 0; i < kKept; ++i) {
          if (entry.round == i) place = m_.counts[buckets[i]] + ranks[i];
        }
      } else {
        place = take(m_.counts, bucket_of(args_.mask, entry.cut, unit));
      }
      const uint4* const from = reinterpret_cast<const uint4*>(&unit);
      uint4* const to = reinterpret_cast<uint4*>(args_.units + place);
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    });
  }

 private:
  static constexpr int kKept = 2;

  // An entry of the table, by its segment.
  struct Entry {
    Span span;
    SegmentCut cut;
    std::int32_t slot;
    std::int32_t segment;
    std::int32_t index;  // among the segment's
    int round;           // of the thread, in its tile
  };

  [[nodiscard]] __device__ Unit unit_of(const Entry& entry) const {
    return make_unit(entry.span, entry.cut, entry.slot, args_.head_groups, entry.segment,
                     entry.index);
  }
  [[nodiscard]] __device__ bool alone() const { return gridDim.x == 1; }
  [[nodiscard]] __device__ bool first_thread() const { return blockIdx.x == 0 && threadIdx.x == 0; }

  __device__ void clear() {
    const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    for (std::int64_t i = thread; i < args_.num_zeroed; i += std::int64_t{gridDim.x} * kThreads) {
      args_.zeroed[i] = 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) m_.counts[i] = 0;
    if (threadIdx.x == 0) {
      m_.fault = kNoFault;
      m_.num_units = 0;
      m_.slots_taken = 0;
    }
    if (!alone() && blockIdx.x == 0) {
      for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) {
        meeting_.counts[i] = 0;
        meeting_.taken[i] = 0;
      }
      if (threadIdx.x == 0) {
        meeting_.fault = kNoFault;
        meeting_.num_units = 0;
        meeting_.slots = 0;
      }
    }
    meet();
  }

  // Reads offsets that nobody has checked; true if they are at fault, which is then published.
  __device__ bool finds_fault() {
    if (args_.q.checked && args_.kv.checked && args_.prefix.checked) return false;
    unsigned long long mine = kNoFault;
    const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    for (std::int64_t i = thread; i <= args_.num_segments;
         i += std::int64_t{gridDim.x} * kThreads) {
      const unsigned long long fault = first_fault(args_, i);
      mine = fault < mine ? fault : mine;
    }
    if (mine != kNoFault) atomicMin(&m_.fault, mine);
    __syncthreads();
    if (!alone()) {
      if (threadIdx.x == 0 && m_.fault != kNoFault) atomicMin(&meeting_.fault, m_.fault);
      meet();
    }
    const unsigned long long fault = alone() ? m_.fault : __ldcg(&meeting_.fault);
    if (fault == kNoFault) return false;
    if (first_thread()) {
      TableHeader header;
      describe_fault(args_, fault, header);
      publish_fault(header);
    }
    return true;
  }

  __device__ void publish_fault(const TableHeader& header) {
    *args_.table = header;
    if (args_.report == nullptr) return;
    volatile FaultReport& report = *args_.report;
    report.fault = header.fault;
    report.argument = header.fault_argument;
    report.index = header.fault_index;
    report.value = header.fault_value;
    report.bound = header.fault_bound;
    report.current = args_.number;
    __threadfence_system();
    report.count = report.count + 1;
  }

  __device__ unsigned long long count_units() {
    unsigned long long mine = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < num_tiles_;
         tile += static_cast<int>(gridDim.x)) {
      const std::int32_t segment = tile * kTile + static_cast<std::int32_t>(threadIdx.x);
      Span span;
      if (segment < args_.num_segments) span = read_span(args_, segment);
      m_.spans[threadIdx.x] = span;  // stays where the block has no other
      mine += static_cast<unsigned>(cut_segment(args_.tiles, span).units);
    }
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(kAllLanes, mine, step);
    if (threadIdx.x % 32 == 0 && mine != 0) atomicAdd(&m_.num_units, mine);
    __syncthreads();
    if (alone()) return m_.num_units;
    if (threadIdx.x == 0) atomicAdd(&meeting_.num_units, m_.num_units);
    meet();
    return __ldcg(&meeting_.num_units);
  }

  // The first slot of a segment whose pieces may run side by side, or -1.
  __device__ std::int32_t grant(const SegmentCut& cut) {
    const std::int64_t slots = cut.slots(args_.head_groups);
    if (!split_ || slots == 0 || slots > args_.partial_slots) return -1;
    unsigned long long& taken = alone() ? m_.slots_taken : meeting_.slots;
    const unsigned long long first = atomicAdd(&taken, static_cast<unsigned long long>(slots));
    if (first + slots <= static_cast<unsigned long long>(args_.partial_slots)) {
      return static_cast<std::int32_t>(first);
    }
    atomicAdd(&taken, static_cast<unsigned long long>(-slots));
    return -1;
  }

  // Calls each(entry) for every entry of the table that this block's segments have, spread over its
  // threads. Both rounds see the same entries: what was granted in the first is kept.
  template <typename Each>
  __device__ void for_entries(bool first_round, Each&& each) {
    for (int tile = static_cast<int>(blockIdx.x); tile < num_tiles_;
         tile += static_cast<int>(gridDim.x)) {
      const std::uint32_t num_entries = load(tile, first_round);
      int round = 0;
      for (std::uint32_t i = threadIdx.x; i < num_entries; i += kThreads, ++round) {
        const std::int32_t at = segment_of(i);
        const Span span = m_.spans[at];
        each(Entry{span, cut_segment(args_.tiles, span), m_.slots[at], tile * kTile + at,
                   static_cast<std::int32_t>(i - m_.first[at]), round});
      }
      __syncthreads();
    }
  }

  // Brings a tile of segments to shared memory; entries that they have together.
  __device__ std::uint32_t load(int tile, bool first_round) {
    if (stays_ && !first_round) return num_entries_;
    const std::int32_t segment = tile * kTile + static_cast<std::int32_t>(threadIdx.x);
    const bool there = segment < args_.num_segments;
    if (!stays_) m_.spans[threadIdx.x] = there ? read_span(args_, segment) : Span{};
    const SegmentCut cut = cut_segment(args_.tiles, m_.spans[threadIdx.x]);
    std::int32_t slot = -1;
    if (first_round) {
      slot = grant(cut);
      if (split_ && !stays_ && there) args_.grants[segment] = slot;
    } else if (split_ && there) {
      slot = args_.grants[segment];
    }
    m_.slots[threadIdx.x] = slot;
    const auto entries = static_cast<std::uint32_t>(entries_of(cut, slot));
    m_.first[threadIdx.x] = scan(m_, entries, num_entries_);
    __syncthreads();
    return num_entries_;
  }

  // The segment of the tile that has an entry: the last one that begins at it or before.
  [[nodiscard]] __device__ std::int32_t segment_of(std::uint32_t entry) const {
    std::int32_t at = 0;
    for (std::int32_t step = kTile / 2; step > 0; step /= 2) {
      if (m_.first[at + step] <= entry) at += step;
    }
    return at;
  }

  // Counts become the place of each bucket's next unit; the header says where each rule begins.
  __device__ void start_buckets() {
    static_assert(kBuckets == 2 * kThreads, "two buckets a thread");
    const int mine = 2 * static_cast<int>(threadIdx.x);
    __syncthreads();
    std::uint32_t counts[2] = {m_.counts[mine], m_.counts[mine + 1]};
    const std::uint32_t own[2] = {counts[0], counts[1]};
    if (!alone()) {
      for (int i = 0; i < 2; ++i) {
        if (own[i] != 0) atomicAdd(&meeting_.counts[mine + i], own[i]);
      }
      meet();
      for (int i = 0; i < 2; ++i) counts[i] = __ldcg(&meeting_.counts[mine + i]);
    }
    std::uint32_t total = 0;
    std::uint32_t next = scan(m_, counts[0] + counts[1], total);
    if (mine % kRuleBuckets == 0) m_.rule_first[mine / kRuleBuckets] = next;
    if (threadIdx.x == 0) m_.rule_first[kMaxTileRules] = total;
    for (int i = 0; i < 2; ++i) {
      std::uint32_t place = next;
      if (!alone() && own[i] != 0) place += atomicAdd(&meeting_.taken[mine + i], own[i]);
      m_.counts[mine + i] = place;
      next += counts[i];
    }
    __syncthreads();
    if (first_thread()) {
      if (args_.report != nullptr && args_.table->fault != OffsetFault::none) {
        static_cast<volatile FaultReport*>(args_.report)->current = 0;
      }
      TableHeader header;
      for (int rule = 0; rule < kMaxTileRules; ++rule) {
        header.first_unit[rule] = static_cast<std::int32_t>(m_.rule_first[rule]);
        header.num_units[rule] =
            static_cast<std::int32_t>(m_.rule_first[rule + 1] - m_.rule_first[rule]);
      }
      header.num_segments = args_.num_segments;
      *args_.table = header;
    }
  }

  const StepArgs& args_;
  Memory& m_;
  Meeting& meeting_;
  int num_tiles_;
  bool stays_;  // no block has more than one tile
  std::uint32_t num_entries_ = 0;
  bool split_ = false;
};

}  // namespace
}  // namespace ragged::device
