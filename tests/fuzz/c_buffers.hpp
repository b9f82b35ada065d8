#pragma once

// Arguments of the C interface in memory of exactly their size, so that the address sanitizer sees
// one byte read or written too far.

#include <fuzzer/FuzzedDataProvider.h>
#include <ragged/ragged.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace fuzz {

// The input. Most calls are made in good faith, so that sequences get somewhere.
class In : public FuzzedDataProvider {
 public:
  using FuzzedDataProvider::FuzzedDataProvider;
  bool hostile = false;
};

// In a hostile call, one time in 16.
inline bool rarely(In& in) { return in.hostile && in.ConsumeIntegralInRange<int>(0, 15) == 0; }

// A struct as a caller of some version holds it: exact, older, newer, or of a hostile size.
template <typename T>
class Struct {
 public:
  Struct(In& in, const T& value) {
    std::size_t claimed = sizeof(T);
    std::size_t held = sizeof(T);
    const int version = in.hostile ? in.ConsumeIntegralInRange<int>(0, 31) : 31;
    if (version == 0) {
      claimed = held = 8 * in.ConsumeIntegralInRange<std::size_t>(1, sizeof(T) / 8);
    } else if (version == 1) {
      claimed = held = sizeof(T) + 8 * in.ConsumeIntegralInRange<std::size_t>(1, 4);
    } else if (version == 2) {
      claimed = in.PickValueInArray<std::size_t>({0, 4, 7, 9, 4097, SIZE_MAX});
    }
    bytes_ = std::make_unique<std::byte[]>(held);
    std::memcpy(bytes_.get(), &value, std::min(held, sizeof(T)));
    if (held > sizeof(T) && in.ConsumeBool()) bytes_[held - 1] = std::byte{1};
    std::memcpy(bytes_.get(), &claimed, sizeof(claimed));
    null_ = rarely(in) && rarely(in);
  }
  [[nodiscard]] T* get() const { return null_ ? nullptr : reinterpret_cast<T*>(bytes_.get()); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  bool null_ = false;
};

// An index tensor and its values.
class Index {
 public:
  Index(In& in, const std::vector<std::int64_t>& values)
      : wide_(in.ConsumeBool()), stride_(in.ConsumeIntegralInRange<std::size_t>(1, 3)) {
    const std::size_t width = wide_ ? 8 : 4;
    data_ = std::make_unique<std::byte[]>(
        values.empty() ? 0 : ((values.size() - 1) * stride_ + 1) * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto narrow = static_cast<std::int32_t>(values[i]);
      if (wide_) {
        std::memcpy(data_.get() + i * stride_ * width, &values[i], width);
      } else {
        std::memcpy(data_.get() + i * stride_ * width, &narrow, width);
      }
    }
    ragged_index index = {};
    index.data = rarely(in) ? nullptr : data_.get();
    index.count = static_cast<std::int64_t>(values.size());
    index.stride = stride_ == 1 && in.ConsumeBool() ? 0 : static_cast<std::int64_t>(stride_);
    index.type = wide_ ? RAGGED_INDEX_INT64 : RAGGED_INDEX_INT32;
    if (rarely(in)) index.type = in.ConsumeIntegralInRange<int>(-1, 3);
    struct_ = std::make_unique<Struct<ragged_index>>(in, index);
  }
  [[nodiscard]] const ragged_index* get() const { return struct_->get(); }

 private:
  bool wide_;
  std::size_t stride_;
  std::unique_ptr<std::byte[]> data_;
  std::unique_ptr<Struct<ragged_index>> struct_;
};

// A tensor [rows, heads, dim] of zeros, strided at times, over memory that ends with its last
// element.
class Tensor {
 public:
  Tensor(In& in, ragged_dtype dtype, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
    ragged_tensor tensor = {};
    tensor.dtype = dtype;
    if (rarely(in)) rows += in.ConsumeIntegralInRange<int>(-2, 2);
    if (rarely(in)) heads += in.ConsumeIntegralInRange<int>(-1, 1);
    if (rarely(in)) dim += in.ConsumeIntegralInRange<int>(-8, 8);
    tensor.shape[0] = rows;
    tensor.shape[1] = heads;
    tensor.shape[2] = dim;
    rows = std::max<std::int64_t>(rows, 0);
    heads = std::max<std::int64_t>(heads, 0);
    dim = std::max<std::int64_t>(dim, 0);
    std::int64_t stride_head = dim;
    std::int64_t stride_row = heads * dim;
    if (in.ConsumeBool()) {
      stride_head += 8 * in.ConsumeIntegralInRange<int>(0, 2);
      stride_row = heads * stride_head + 8 * in.ConsumeIntegralInRange<int>(0, 2);
      tensor.strides[0] = stride_row;
      tensor.strides[1] = stride_head;
      tensor.strides[2] = rarely(in) ? 2 : 1;
    }
    const std::int64_t width = dtype == RAGGED_DTYPE_FP32 ? 4 : 2;
    const std::int64_t elements =
        rows * heads * dim == 0 ? 0 : (rows - 1) * stride_row + (heads - 1) * stride_head + dim;
    data_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(elements * width));
    tensor.data = rarely(in) && rarely(in) ? nullptr : data_.get();
    if (rarely(in) && rarely(in)) tensor.device.kind = RAGGED_DEVICE_CUDA;
    struct_ = std::make_unique<Struct<ragged_tensor>>(in, tensor);
  }
  [[nodiscard]] const ragged_tensor* get() const { return struct_->get(); }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::unique_ptr<Struct<ragged_tensor>> struct_;
};

class Lse {
 public:
  Lse(In& in, std::int64_t rows, std::int64_t heads) {
    if (rarely(in)) rows -= 1;
    rows = std::max<std::int64_t>(rows, 0);
    data_ = std::make_unique<float[]>(static_cast<std::size_t>(rows * heads));
    ragged_lse lse = {};
    lse.data = data_.get();
    lse.shape[0] = rows;
    lse.shape[1] = heads;
    struct_ = std::make_unique<Struct<ragged_lse>>(in, lse);
  }
  [[nodiscard]] const ragged_lse* get() const { return struct_->get(); }

 private:
  std::unique_ptr<float[]> data_;
  std::unique_ptr<Struct<ragged_lse>> struct_;
};

}  // namespace fuzz
