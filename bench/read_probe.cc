#include "bench/read_probe.hpp"

#include <algorithm>
#include <cstring>

#include "bench/parallel_rate.hpp"

namespace ragged::bench {
namespace {

constexpr std::int64_t kWordsPerVector = 8;

// 32-byte or wider loads where the processor has them: memory is the limit then, not the loop. The
// compiler makes vector code of the eight sums.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
std::uint64_t
xor_of(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t sums[4 * kWordsPerVector] = {};
  std::int64_t i = 0;
  for (; i + 4 * kWordsPerVector <= count; i += 4 * kWordsPerVector) {
    for (std::int64_t j = 0; j < 4 * kWordsPerVector; ++j) sums[j] ^= words[i + j];
  }
  for (; i < count; ++i) sums[0] ^= words[i];
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all ^= sum;
  return all;
}

}  // namespace

ReadProbe::ReadProbe(std::int64_t bytes, int threads)
    : vectors_(std::max<std::int64_t>(threads, bytes / 64)),
      threads_(std::max(1, threads)),
      buffer_(new std::uint64_t[static_cast<std::size_t>(vectors_ * kWordsPerVector)]) {
  // Real pages of its own, not the kernel's one page of zeros.
  std::memset(buffer_.get(), 0x5a, static_cast<std::size_t>(vectors_) * 64);
}

double ReadProbe::measure_gbps() const {
  std::atomic<std::uint64_t> sink{0};
  // A millisecond of passes, and always a whole one: small buffers take no time at all.
  const double bytes_per_second = parallel_rate(threads_, 0.001, [&](int worker) {
    const std::int64_t begin = vectors_ * worker / threads_;
    const std::int64_t end = vectors_ * (worker + 1) / threads_;
    sink ^= xor_of(buffer_.get() + begin * kWordsPerVector, (end - begin) * kWordsPerVector);
    return static_cast<double>(end - begin) * 64.0;
  });
  return 1e-9 * bytes_per_second;
}

}  // namespace ragged::bench
