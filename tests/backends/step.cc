#include "backends/step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/numbers.hpp"

namespace ragged::test {
namespace {

// Elements of poison before the first row of every storage.
constexpr std::int64_t kLead = 64;

std::uint32_t poison_bits(DType dtype, Poison poison, std::int64_t index) {
  const bool odd = index % 2 != 0;
  if (poison == Poison::nan) {
    // Quiet NaNs with a payload, so that a NaN that was computed is told from one left in place.
    if (dtype == DType::fp32) return odd ? 0x7fc5a5a5U : 0xffc5a5a5U;
    if (dtype == DType::bf16) return odd ? 0x7fd5U : 0xffd5U;
    return odd ? 0x7f55U : 0xff55U;
  }
  if (dtype == DType::fp32) return odd ? 0x7f800000U : 0xff800000U;
  if (dtype == DType::bf16) return odd ? 0x7f80U : 0xff80U;
  return odd ? 0x7c00U : 0xfc00U;
}

std::size_t element_bytes(DType dtype) { return dtype == DType::fp32 ? 4 : 2; }

std::uint32_t bits_at(const std::byte* image, DType dtype, std::int64_t index) {
  std::uint32_t bits = 0;
  const std::size_t width = element_bytes(dtype);
  std::memcpy(&bits, image + static_cast<std::size_t>(index) * width, width);
  return bits;
}

Side make_side(const Case& c, const std::vector<std::int64_t>& lengths) {
  Side side;
  side.lengths = lengths;
  side.gaps = c.gap_rows > 0;
  std::int64_t at = 0;
  std::vector<std::int64_t> cu_seqlens = {0};
  for (const std::int64_t length : lengths) {
    at += c.gap_rows;
    side.starts.push_back(at);
    at += length;
    cu_seqlens.push_back(at);
  }
  side.rows = at + c.tail_rows;
  if (side.gaps) {
    side.span_starts = Offsets(side.starts, c.index);
    side.span_lengths = Offsets(lengths, c.index);
  } else {
    side.cu_seqlens = Offsets(cu_seqlens, c.index);
  }
  return side;
}

void assign(Layout& layout, const Side& side, const char* argument) {
  if (side.gaps) {
    layout.assign_spans({side.span_starts.view(), side.span_lengths.view()}, argument);
  } else {
    layout.assign_offsets(side.cu_seqlens.view(), argument);
  }
}

}  // namespace

Offsets::Offsets(const std::vector<std::int64_t>& values, IndexForm form)
    : count_(static_cast<std::int64_t>(values.size())) {
  const bool narrow = form == IndexForm::int32 || form == IndexForm::strided_int32;
  stride_ = form == IndexForm::strided_int32 || form == IndexForm::strided_int64 ? 2 : 1;
  const auto place = [&](auto& storage) {
    // What lies between strided entries must not be read as one.
    storage.assign(values.size() * static_cast<std::size_t>(stride_), -7);
    for (std::size_t i = 0; i < values.size(); ++i) {
      storage[i * static_cast<std::size_t>(stride_)] =
          static_cast<std::remove_reference_t<decltype(storage[0])>>(values[i]);
    }
  };
  if (narrow) {
    place(narrow_);
  } else {
    place(wide_);
  }
}

IndexView Offsets::view() const {
  if (!narrow_.empty()) return {narrow_.data(), IndexType::int32, count_, stride_};
  return {wide_.data(), IndexType::int64, count_, stride_};
}

Step::Step(const Data& data, Memory& memory, Poison poison, std::int64_t only_segment)
    : data_(&data), memory_(&memory), poison_(poison), only_segment_(only_segment) {
  const Case& c = data.c;
  q_side_ = make_side(c, c.q_lengths);
  kv_side_ = make_side(c, c.key_lengths());
  if (c.two_sources()) prefix_side_ = make_side(c, c.prefix_lengths);

  if (c.fusion == Fusion::none) {
    q_ = own_tensor(q_side_, c.num_qo_heads);
    k_ = own_tensor(kv_side_, c.num_kv_heads);
    v_ = own_tensor(kv_side_, c.num_kv_heads);
  } else {
    const std::int64_t heads = c.num_qo_heads + 2 * c.num_kv_heads;
    const std::int64_t row_stride = heads * c.head_dim + c.row_padding;
    Storage& storage = new_storage(data.dtype, q_side_.rows * row_stride);
    const std::int64_t k_offset = kLead + std::int64_t{c.num_qo_heads} * c.head_dim;
    const std::int64_t v_offset = k_offset + std::int64_t{c.num_kv_heads} * c.head_dim;
    q_ = place(storage, kLead, q_side_.rows, c.num_qo_heads, c.head_dim, row_stride);
    k_ = place(storage, k_offset, q_side_.rows, c.num_kv_heads, c.head_dim, row_stride);
    v_ = place(storage, v_offset, q_side_.rows, c.num_kv_heads, c.head_dim, row_stride);
  }
  write(q_, q_side_, data.q);
  write(k_, kv_side_, data.k);
  write(v_, kv_side_, data.v);
  if (c.two_sources()) {
    prefix_k_ = own_tensor(prefix_side_, c.num_kv_heads);
    prefix_v_ = own_tensor(prefix_side_, c.num_kv_heads);
    write(prefix_k_, prefix_side_, data.prefix_k);
    write(prefix_v_, prefix_side_, data.prefix_v);
  }
  out_ = own_tensor(q_side_, c.num_qo_heads);
  const std::int64_t lse_head = c.head_padding > 0 ? 2 : 1;
  const std::int64_t lse_row = lse_head * c.num_qo_heads + (c.row_padding > 0 ? 3 : 0);
  lse_ = place(new_storage(DType::fp32, q_side_.rows * lse_row), kLead, q_side_.rows,
               c.num_qo_heads, lse_head, lse_row);
  lse_.shape[2] = 1;
  for (const auto& storage : storages_) {
    memory_->upload(storage->buffer.data(), storage->image.data(), storage->image.size());
  }
}

Storage& Step::new_storage(DType dtype, std::int64_t elements) {
  auto storage = std::make_unique<Storage>();
  storage->dtype = dtype;
  const std::size_t width = element_bytes(dtype);
  const std::int64_t count = kLead + elements;
  storage->image.resize(static_cast<std::size_t>(count) * width);
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::uint32_t bits = poison_bits(dtype, poison_, i);
    std::memcpy(storage->image.data() + static_cast<std::size_t>(i) * width, &bits, width);
  }
  // The two repeat; kLead makes sure that there are two.
  for (std::size_t done = 2 * width; done < storage->image.size();) {
    const std::size_t more = std::min(done, storage->image.size() - done);
    std::memcpy(storage->image.data() + done, storage->image.data(), more);
    done += more;
  }
  storage->buffer = memory_->allocate(storage->image.size(), 16);
  storages_.push_back(std::move(storage));
  return *storages_.back();
}

Field Step::place(Storage& storage, std::int64_t offset, std::int64_t rows, int heads,
                  std::int64_t head_stride, std::int64_t row_stride) const {
  return {&storage, offset, {rows, heads, data_->c.head_dim}, {row_stride, head_stride, 1}};
}

Field Step::own_tensor(const Side& side, int heads) {
  const Case& c = data_->c;
  const std::int64_t head_stride = c.head_dim + c.head_padding;
  const std::int64_t row_stride = heads * head_stride + c.row_padding;
  return place(new_storage(data_->dtype, side.rows * row_stride), kLead, side.rows, heads,
               head_stride, row_stride);
}

void Step::write(const Field& field, const Side& side, const std::vector<float>& values) {
  const DType dtype = field.storage->dtype;
  const std::size_t width = element_bytes(dtype);
  const float* from = values.data();
  for (std::size_t i = 0; i < side.starts.size(); ++i) {
    const bool live = only_segment_ < 0 || only_segment_ == static_cast<std::int64_t>(i);
    const std::int64_t count = side.lengths[i] * field.shape[1] * field.shape[2];
    if (!live) {
      from += count;
      continue;
    }
    for (std::int64_t row = side.starts[i]; row < side.starts[i] + side.lengths[i]; ++row) {
      for (std::int64_t head = 0; head < field.shape[1]; ++head) {
        std::byte* to = field.storage->image.data() +
                        static_cast<std::size_t>(field.offset + row * field.strides[0] +
                                                 head * field.strides[1]) *
                            width;
        for (std::int64_t d = 0; d < field.shape[2]; ++d, to += width) store(dtype, to, *from++);
      }
    }
  }
}

TensorView Step::view(const Field& field) const {
  TensorView view;
  view.dtype = field.storage->dtype;
  view.data = field.storage->buffer.data() +
              static_cast<std::size_t>(field.offset) * element_bytes(view.dtype);
  view.shape = field.shape;
  view.strides = field.strides;
  view.device = memory_->device();
  return view;
}

StepLayouts Step::layouts() const {
  StepLayouts layouts;
  assign(layouts.q, q_side_, "q_cu_seqlens");
  const Case& c = data_->c;
  layouts.kv_is_q = !c.own_keys() || (c.two_sources() && c.kv_lengths.empty());
  if (!layouts.kv_is_q) assign(layouts.kv, kv_side_, "kv_cu_seqlens");
  if (c.two_sources()) assign(layouts.prefix, prefix_side_, "prefix_cu_seqlens");
  return layouts;
}

RunArguments Step::arguments(bool with_lse) const {
  RunArguments arguments;
  arguments.q = view(q_);
  arguments.k = view(k_);
  arguments.v = view(v_);
  arguments.out = view(out_);
  if (data_->c.two_sources()) {
    arguments.prefix_k = view(prefix_k_);
    arguments.prefix_v = view(prefix_v_);
  }
  if (with_lse) {
    const TensorView lse = view(lse_);
    arguments.lse.data = static_cast<float*>(lse.data);
    arguments.lse.shape = {lse.shape[0], lse.shape[1]};
    arguments.lse.strides = {lse.strides[0], lse.strides[1]};
    arguments.lse.device = lse.device;
  }
  return arguments;
}

Result Step::collect(bool with_lse) {
  Result result;
  const auto gather = [&](const Field& field, bool written, const char* name) {
    const std::vector<std::byte>& before = field.storage->image;
    std::vector<std::byte> after(before.size());
    memory_->download(after.data(), field.storage->buffer.data(), after.size());
    const DType dtype = field.storage->dtype;
    const std::size_t width = element_bytes(dtype);
    const auto row_bytes = static_cast<std::size_t>(field.shape[2]) * width;
    std::vector<std::uint32_t> live;
    for (std::size_t i = 0; written && i < q_side_.starts.size(); ++i) {
      const std::int64_t first = q_side_.starts[i];
      for (std::int64_t row = first; row < first + q_side_.lengths[i]; ++row) {
        for (std::int64_t head = 0; head < field.shape[1]; ++head) {
          const std::int64_t at = field.offset + row * field.strides[0] + head * field.strides[1];
          for (std::int64_t d = 0; d < field.shape[2]; ++d) {
            live.push_back(bits_at(after.data(), dtype, at + d));
          }
          // What remains must be as it was.
          const std::size_t byte = static_cast<std::size_t>(at) * width;
          std::memcpy(after.data() + byte, before.data() + byte, row_bytes);
        }
      }
    }
    if (after != before) {
      const auto differs = std::mismatch(after.begin(), after.end(), before.begin()).first;
      const auto index = (differs - after.begin()) / static_cast<std::ptrdiff_t>(width);
      ADD_FAILURE() << name << ": element " << index - field.offset
                    << " of the storage (row stride " << field.strides[0] << ", head stride "
                    << field.strides[1] << ") belongs to no segment and was written: bits "
                    << std::hex << bits_at(after.data(), dtype, index);
    }
    return live;
  };
  for (const auto& storage : storages_) {
    if (storage.get() == out_.storage || storage.get() == lse_.storage) continue;
    std::vector<std::byte> after(storage->image.size());
    memory_->download(after.data(), storage->buffer.data(), after.size());
    EXPECT_TRUE(after == storage->image) << "an input tensor was written";
  }
  result.out = gather(out_, true, "out");
  result.lse = gather(lse_, with_lse, "lse");
  return result;
}

void Step::reset_output() {
  for (const Field* field : {&out_, &lse_}) {
    memory_->upload(field->storage->buffer.data(), field->storage->image.data(),
                    field->storage->image.size());
  }
}

}  // namespace ragged::test
