#pragma once

// How fast this machine reads: the limit of workloads that touch each key once, such as one query
// token a segment.

#include <cstdint>
#include <memory>

namespace ragged::bench {

// A buffer of `bytes` that each measurement reads end to end, every thread its own share, once or
// for a millisecond. What it finds is the bandwidth of the level of memory that holds a working set
// of this size: pass the bytes of the workload's keys and values.
class ReadProbe {
 public:
  // bytes >= 64 * threads, threads >= 1. Throws std::bad_alloc.
  ReadProbe(std::int64_t bytes, int threads);
  // GB/s (1e9 bytes), the sum over the threads.
  [[nodiscard]] double measure_gbps() const;

 private:
  std::int64_t vectors_;  // of 64 bytes
  int threads_;
  std::unique_ptr<std::uint64_t[]> buffer_;
};

}  // namespace ragged::bench
