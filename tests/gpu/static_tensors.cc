#include "gpu/static_tensors.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "support/numbers.hpp"

namespace ragged::test {
namespace {

constexpr auto kUnwritten = std::byte{0xff};  // NaN in every dtype

std::size_t bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(elements * size_bytes(dtype));
}

}  // namespace

StaticTensors::StaticTensors(const Case& shape, DType dtype, const Ceilings& ceilings,
                             Memory& memory)
    : memory_(&memory), two_sources_(shape.two_sources()) {
  const std::int64_t q_rows = ceilings.max_total_tokens;
  const std::int64_t kv_rows = std::max(q_rows, ceilings.max_total_kv_tokens);
  q_ = make(q_rows, shape.num_qo_heads, shape.head_dim, dtype);
  out_ = make(q_rows, shape.num_qo_heads, shape.head_dim, dtype);
  lse_ = make(q_rows, shape.num_qo_heads, 1, DType::fp32);
  k_ = make(kv_rows, shape.num_kv_heads, shape.head_dim, dtype);
  v_ = make(kv_rows, shape.num_kv_heads, shape.head_dim, dtype);
  if (!two_sources_) return;
  prefix_k_ = make(kv_rows, shape.num_kv_heads, shape.head_dim, dtype);
  prefix_v_ = make(kv_rows, shape.num_kv_heads, shape.head_dim, dtype);
}

StaticTensors::Tensor StaticTensors::make(std::int64_t rows, int heads, int width, DType dtype) {
  Tensor tensor = {{}, rows, heads, width, dtype};
  tensor.buffer = memory_->allocate(bytes_of(rows * heads * width, dtype), 16);
  return tensor;
}

void StaticTensors::write(const Tensor& tensor, const std::vector<float>& values) {
  std::vector<std::byte> image(tensor.buffer.bytes(), kUnwritten);
  ASSERT_LE(bytes_of(std::ssize(values), tensor.dtype), image.size()) << "beyond the ceilings";
  std::byte* to = image.data();
  for (const float value : values) {
    store(tensor.dtype, to, value);
    to += size_bytes(tensor.dtype);
  }
  memory_->upload(tensor.buffer.data(), image.data(), image.size());
}

void StaticTensors::load(const Data& data) {
  write(q_, data.q);
  write(k_, data.k);
  write(v_, data.v);
  write(out_, {});
  write(lse_, {});
  if (!two_sources_) return;
  write(prefix_k_, data.prefix_k);
  write(prefix_v_, data.prefix_v);
}

TensorView StaticTensors::view(const Tensor& tensor) const {
  return TensorView::packed(tensor.buffer.data(), tensor.dtype, tensor.rows, tensor.heads,
                            tensor.width, memory_->device());
}

RunArguments StaticTensors::arguments() const {
  RunArguments a;
  a.q = view(q_);
  a.k = view(k_);
  a.v = view(v_);
  a.out = view(out_);
  a.lse = LseView::packed(reinterpret_cast<float*>(lse_.buffer.data()), lse_.rows, lse_.heads,
                          memory_->device());
  if (!two_sources_) return a;
  a.prefix_k = view(prefix_k_);
  a.prefix_v = view(prefix_v_);
  return a;
}

std::vector<std::uint32_t> StaticTensors::read(const Tensor& tensor, std::int64_t rows,
                                               const char* name) const {
  std::vector<std::byte> image(tensor.buffer.bytes());
  memory_->download(image.data(), tensor.buffer.data(), image.size());
  const std::size_t live = bytes_of(rows * tensor.heads * tensor.width, tensor.dtype);
  for (std::size_t i = live; i < image.size(); ++i) {
    if (image[i] == kUnwritten) continue;
    ADD_FAILURE() << name << ": byte " << i - live << " behind the layout was written";
    break;
  }
  const auto width = static_cast<std::size_t>(size_bytes(tensor.dtype));
  std::vector<std::uint32_t> bits(live / width);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&bits[i], image.data() + i * width, width);
  }
  return bits;
}

Result StaticTensors::collect(const Data& data) const {
  const std::int64_t rows = data.q_begin.back();
  return {read(out_, rows, "out"), read(lse_, rows, "lse")};
}

}  // namespace ragged::test
