#pragma once

// One case's tensors in a target's memory, with everything around the live elements poisoned.

#include <cstddef>
#include <memory>
#include <vector>

#include <ragged/run.hpp>

#include "backends/data.hpp"
#include "support/memory.hpp"

namespace ragged::test {

// What surrounds live elements: rows past the plan, gaps, padding, and the output before a run.
enum class Poison : std::uint8_t {
  nan,
  inf,  // of both signs in turn
};

// cu_seqlens, or starts and lengths, in the form in which a case's caller holds them.
class Offsets {
 public:
  Offsets() = default;
  Offsets(const std::vector<std::int64_t>& values, IndexForm form);
  [[nodiscard]] IndexView view() const;

 private:
  std::vector<std::int64_t> wide_;
  std::vector<std::int32_t> narrow_;
  std::int64_t count_ = 0;
  std::int64_t stride_ = 1;
};

// Where the segments of one packed side lie in its tensors.
struct Side {
  std::vector<std::int64_t> starts;  // tensor row of each segment's first row
  std::vector<std::int64_t> lengths;
  std::int64_t rows = 0;  // of the tensor, tail included
  Offsets cu_seqlens;     // without gaps
  Offsets span_starts;    // with gaps
  Offsets span_lengths;
  bool gaps = false;
};

// Storage that one or more tensors are views of, filled on the host and uploaded once.
struct Storage {
  DType dtype = DType::fp32;
  std::vector<std::byte> image;
  Buffer buffer;
};

// A tensor within a storage; counts and strides in elements.
struct Field {
  Storage* storage = nullptr;
  std::int64_t offset = 0;
  std::array<std::int64_t, 3> shape = {0, 0, 0};
  std::array<std::int64_t, 3> strides = {0, 0, 1};
};

// What a run left in the live rows, packed end to end, as the type's bits.
struct Result {
  std::vector<std::uint32_t> out;  // [total_q, num_qo_heads, head_dim]
  std::vector<std::uint32_t> lse;  // [total_q, num_qo_heads], fp32; empty if not asked for
};

class Step {
 public:
  // With only_segment >= 0, the live rows of all other segments are poisoned as well.
  Step(const Data& data, Memory& memory, Poison poison, std::int64_t only_segment = -1);
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  [[nodiscard]] const Data& data() const { return *data_; }
  [[nodiscard]] const Side& q_side() const { return q_side_; }
  [[nodiscard]] const Side& kv_side() const { return kv_side_; }
  [[nodiscard]] const Side& prefix_side() const { return prefix_side_; }
  [[nodiscard]] StepLayouts layouts() const;
  // Tensors, LSE and nothing else of a run's arguments.
  [[nodiscard]] RunArguments arguments(bool with_lse) const;

  // Fetches the results; adds a failure for every element outside the live rows that changed.
  [[nodiscard]] Result collect(bool with_lse);
  // Puts the output and LSE back to their poison.
  void reset_output();

 private:
  Storage& new_storage(DType dtype, std::int64_t elements);
  Field place(Storage& storage, std::int64_t offset, std::int64_t rows, int heads,
              std::int64_t head_stride, std::int64_t row_stride) const;
  Field own_tensor(const Side& side, int heads);
  void write(const Field& field, const Side& side, const std::vector<float>& values);
  [[nodiscard]] TensorView view(const Field& field) const;

  const Data* data_;
  Memory* memory_;
  Poison poison_;
  std::int64_t only_segment_;
  Side q_side_;
  Side kv_side_;
  Side prefix_side_;
  std::vector<std::unique_ptr<Storage>> storages_;
  Field q_;
  Field k_;
  Field v_;
  Field prefix_k_;
  Field prefix_v_;
  Field out_;
  Field lse_;  // [rows, heads, 1]
};

}  // namespace ragged::test
