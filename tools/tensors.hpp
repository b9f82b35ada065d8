#pragma once

// Tensors that the program owns: generated, read from a file, or computed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <ragged/layout.hpp>

#include "case.hpp"

namespace ragged::tools {

// A zeroed block aligned to 64 bytes.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

// Whether blocks made from now on ask the system for huge pages; off at first.
void prefer_huge_pages(bool prefer) noexcept;

// A packed tensor of shape [tokens, heads, head_dim].
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim);

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t heads() const noexcept { return heads_; }
  [[nodiscard]] std::int64_t head_dim() const noexcept { return head_dim_; }
  [[nodiscard]] std::int64_t elements() const noexcept { return tokens_ * heads_ * head_dim_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_.data(), size_}; }

  // A copy at an address of its own.
  [[nodiscard]] Tensor clone() const;
  [[nodiscard]] TensorView view() const;
  // Element i in row-major order, widened.
  [[nodiscard]] float at(std::int64_t i) const noexcept;
  // Rounds to the tensor's type.
  void set(std::int64_t i, float value) noexcept;

 private:
  DType dtype_ = DType::fp32;
  std::int64_t tokens_ = 0;
  std::int64_t heads_ = 0;
  std::int64_t head_dim_ = 0;
  AlignedBytes data_;
  std::size_t size_ = 0;
};

// Standard normal values from a seed: the same on every machine up to the last bit of its log, and
// independent of how many were asked for.
void fill_normal(Tensor& tensor, std::uint64_t seed);

// What a run reads. With two sources, k and v are the fresh keys.
struct Inputs {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor prefix_k;
  Tensor prefix_v;
};

// Inputs of the case's shape. Throws ragged::Error(out_of_range) where they would not leave half of
// this machine's memory free.
Inputs generate(const Case& c, std::uint64_t seed);

// The same inputs as fp32 (exact), with prefix and fresh keys joined.
struct WideInputs {
  Tensor q;
  Tensor k;
  Tensor v;
};
WideInputs widen(const Case& c, const Inputs& inputs);

}  // namespace ragged::tools
