#pragma once

// One GPU as a benchmark sees it: memory, inputs, what is right, and time. Plain calls; CUDA stays
// in this folder. Knows nothing of the library but its element types.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ragged/declare.hpp>

namespace ragged::bench {

// Device memory.
class GpuBuffer {
 public:
  GpuBuffer() = default;
  explicit GpuBuffer(std::size_t bytes);
  GpuBuffer(GpuBuffer&& other) noexcept { std::swap(data_, other.data_); }
  GpuBuffer& operator=(GpuBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~GpuBuffer();
  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
};

// Standard normal values, rounded to the type; the same for the same seed.
void fill_normal(void* data, DType dtype, std::int64_t count, std::uint64_t seed);
// All bits set: NaN in every type.
void poison(void* data, std::size_t bytes);

// Keys and values of one source: [tokens, num_kv_heads, head_dim], dense.
struct KeySource {
  const void* k = nullptr;
  const void* v = nullptr;
};

// One query row and the keys that it sees: rows of the prefix, then rows of the fresh keys.
struct RowSpan {
  std::int64_t row = 0;
  std::int64_t prefix_begin = 0;
  std::int64_t prefix_end = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct AttentionShape {
  DType dtype = DType::bf16;
  int num_qo_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  double sm_scale = 0;
};

// Attention of these rows in double precision, on the GPU by code that the library has no part in:
// [rows, num_qo_heads, head_dim].
std::vector<double> attention_rows(const AttentionShape& shape, const void* q,
                                   const KeySource& prefix, const KeySource& fresh,
                                   const std::vector<RowSpan>& rows);

// Row `row` of a dense [tokens, width] tensor, widened.
std::vector<float> read_row(const void* data, DType dtype, std::int64_t row, std::int64_t width);

// A stream that work is started on and timed, and graphs that are captured from it.
class GpuTimer {
 public:
  // Makes the GPU current for this thread.
  explicit GpuTimer(int index);
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  // cudaStream_t.
  [[nodiscard]] void* stream() const noexcept { return stream_; }
  void synchronize() const;
  // Microseconds on the device between the start and the end of what `body` starts.
  double time_us(const std::function<void()>& body) const;

  // Captures what `body` starts on the stream as the graph that the calls below replay.
  void capture(const std::function<void()>& body);
  // Microseconds of single replays: after the GPU has been idle for so long, and one replay that
  // does not count, at least 3 and at most 10, no more once they have taken 60 ms.
  [[nodiscard]] std::vector<double> burst_us(double idle_seconds) const;
  // Microseconds of one replay each, of replays without a pause for so long; the second half of
  // them.
  [[nodiscard]] std::vector<double> sustained_us(double seconds) const;

 private:
  struct Graph;
  int index_;
  void* stream_ = nullptr;
  std::unique_ptr<Graph> graph_;
};

// What a report says of the GPU and its software.
struct GpuEnvironment {
  std::string name;
  std::string driver;   // "580.159.04"; empty where it cannot be read
  std::string runtime;  // of CUDA: "13.0"
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int max_sm_mhz = 0;  // 0: not known, here and below
  int max_memory_mhz = 0;
  int power_limit_watts = 0;
};
GpuEnvironment gpu_environment(int index);
// The clock of the multiprocessors just now, in MHz; 0 where it cannot be read.
int sm_clock_mhz(int index);

}  // namespace ragged::bench
