#include "tensors.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numbers>
#include <numeric>

#include "huge_pages.hpp"
#include "numbers.hpp"
#include "parallel.hpp"

namespace ragged::tools {
namespace {

constexpr std::align_val_t kAlignment{64};

bool huge_pages = false;  // set once, before tensors are made

// A step of the splitmix64 generator, as a function of its counter.
std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// In (0, 1].
double uniform(std::uint64_t bits) noexcept {
  return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53;
}

std::int64_t total(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

void check_memory(const Case& c, std::int64_t q_tokens, std::int64_t kv_tokens) {
  const Problem& p = c.problem;
  const double elements =
      static_cast<double>(p.head_dim) * (2.0 * static_cast<double>(q_tokens) * p.num_qo_heads +
                                         2.0 * static_cast<double>(kv_tokens) * p.num_kv_heads);
  // The check holds fp32 copies beside the inputs and the output.
  const double bytes = elements * (static_cast<double>(size_bytes(p.dtype)) + 4.0);
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (bytes > memory / 2) {
    throw Error(ErrorCode::out_of_range, c.name + ": its tensors take " +
                                             std::to_string(std::llround(bytes / 1e9)) +
                                             " GB; expected at most half of this machine's " +
                                             std::to_string(std::llround(memory / 1e9)) + " GB");
  }
}

void copy_widened(const Tensor& from, std::int64_t from_row, Tensor& to, std::int64_t to_row,
                  std::int64_t rows) {
  const std::int64_t row = from.heads() * from.head_dim();
  for (std::int64_t i = 0; i < rows * row; ++i) {
    to.set(to_row * row + i, from.at(from_row * row + i));
  }
}

Tensor widened(const Tensor& from) {
  Tensor to(DType::fp32, from.tokens(), from.heads(), from.head_dim());
  copy_widened(from, 0, to, 0, from.tokens());
  return to;
}

// Prefix i followed by the fresh rows i, for every segment.
Tensor joined(const Case& c, const Tensor& prefix, const Tensor& fresh) {
  Tensor to(DType::fp32, prefix.tokens() + fresh.tokens(), fresh.heads(), fresh.head_dim());
  std::int64_t prefix_row = 0;
  std::int64_t fresh_row = 0;
  for (std::size_t i = 0; i < c.q_lengths.size(); ++i) {
    copy_widened(prefix, prefix_row, to, prefix_row + fresh_row, c.prefix_lengths[i]);
    prefix_row += c.prefix_lengths[i];
    copy_widened(fresh, fresh_row, to, prefix_row + fresh_row, c.q_lengths[i]);
    fresh_row += c.q_lengths[i];
  }
  return to;
}

}  // namespace

void prefer_huge_pages(bool prefer) noexcept { huge_pages = prefer; }

AlignedBytes::AlignedBytes(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  data_.reset(static_cast<std::byte*>(::operator new[](bytes, kAlignment)));
  if (huge_pages) detail::ask_for_huge_pages(data_.get(), bytes);
  std::memset(data_.get(), 0, bytes);
}

void AlignedBytes::Free::operator()(std::byte* data) const noexcept {
  ::operator delete[](data, kAlignment);
}

Tensor::Tensor(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim)
    : dtype_(dtype),
      tokens_(tokens),
      heads_(heads),
      head_dim_(head_dim),
      // Never an empty block: a view of no rows still has an address.
      data_(static_cast<std::size_t>(tokens * heads * head_dim * size_bytes(dtype)) + 64),
      size_(data_.size() - 64) {}

Tensor Tensor::clone() const {
  Tensor copy(dtype_, tokens_, heads_, head_dim_);
  if (size_ > 0) std::memcpy(copy.data_.data(), data_.data(), size_);
  return copy;
}

TensorView Tensor::view() const {
  return TensorView::packed(data_.data(), dtype_, tokens_, heads_, head_dim_);
}

float Tensor::at(std::int64_t i) const noexcept {
  return load_element(data_.data() + i * size_bytes(dtype_), dtype_);
}

void Tensor::set(std::int64_t i, float value) noexcept {
  store_element(data_.data() + i * size_bytes(dtype_), dtype_, value);
}

void fill_normal(Tensor& tensor, std::uint64_t seed) {
  // Box and Muller's transform: two independent normals from two uniform values.
  const std::uint64_t base = mix(seed);
  const std::int64_t count = tensor.elements();
  constexpr std::int64_t kChunk = 1 << 16;  // even, so that no pair is cut
  parallel_for((count + kChunk - 1) / kChunk, [&](std::int64_t chunk) {
    const std::int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (std::int64_t i = chunk * kChunk; i < end; i += 2) {
      const auto counter = base + static_cast<std::uint64_t>(i);
      const double radius = std::sqrt(-2.0 * std::log(uniform(mix(counter))));
      const double angle = 2.0 * std::numbers::pi * uniform(mix(counter + 1));
      tensor.set(i, static_cast<float>(radius * std::cos(angle)));
      if (i + 1 < end) tensor.set(i + 1, static_cast<float>(radius * std::sin(angle)));
    }
  });
}

Inputs generate(const Case& c, std::uint64_t seed) {
  const Problem& p = c.problem;
  const std::int64_t q_tokens = total(c.q_lengths);
  const std::int64_t kv_tokens = total(c.key_lengths());
  check_memory(c, q_tokens, kv_tokens);
  const auto make = [&](std::int64_t tokens, int heads, std::uint64_t stream) {
    Tensor tensor(p.dtype, tokens, heads, p.head_dim);
    fill_normal(tensor, mix(seed) + stream);
    return tensor;
  };
  const std::int64_t prefix_tokens = p.two_sources ? total(c.prefix_lengths) : 0;
  Inputs inputs;
  inputs.q = make(q_tokens, p.num_qo_heads, 0);
  inputs.k = make(kv_tokens - prefix_tokens, p.num_kv_heads, 1);
  inputs.v = make(kv_tokens - prefix_tokens, p.num_kv_heads, 2);
  inputs.prefix_k = make(prefix_tokens, p.num_kv_heads, 3);
  inputs.prefix_v = make(prefix_tokens, p.num_kv_heads, 4);
  return inputs;
}

WideInputs widen(const Case& c, const Inputs& inputs) {
  if (c.problem.two_sources) {
    return {widened(inputs.q), joined(c, inputs.prefix_k, inputs.k),
            joined(c, inputs.prefix_v, inputs.v)};
  }
  return {widened(inputs.q), widened(inputs.k), widened(inputs.v)};
}

}  // namespace ragged::tools
