#pragma once

// Tensors of any library that speaks DLPack or the buffer protocol, as the views that the library
// takes. Nothing is copied.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <string_view>

#include <ragged/layout.hpp>
#include <ragged/run.hpp>

#include "dlpack.hpp"

namespace ragged::python {

namespace nb = nanobind;

enum class Access : std::uint8_t { read, write };

// One tensor for the length of one call. Shape and strides belong to the caller's object.
class TensorArgument {
 public:
  // Throws WrongType where `object` is no tensor; invalid_argument where it cannot be used: not
  // writable, on a device of an unknown kind, or one whose gradient autograd would record.
  TensorArgument(nb::handle object, std::string_view name, Access access);

  [[nodiscard]] const dlpack::Tensor& raw() const noexcept { return tensor_; }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] Device device() const;
  [[nodiscard]] void* data() const noexcept;
  // In elements; those of a packed tensor where the producer gave none.
  [[nodiscard]] std::int64_t stride(int dimension) const noexcept;
  // Elements are bfloat16, which some producers can only hand over as 16-bit integers.
  [[nodiscard]] bool is_bf16() const noexcept { return bf16_; }

  // "float64 of shape [3, 2]", for refusals.
  [[nodiscard]] std::string describe() const;

  // [tokens, heads, head_dim] of bf16, fp16 or fp32. Throws invalid_argument naming what came.
  [[nodiscard]] TensorView view() const;
  // [tokens, heads] of fp32.
  [[nodiscard]] LseView lse_view() const;

 private:
  void import_by_protocol(nb::handle object, Access access);

  std::string_view name_;
  dlpack::Tensor tensor_;
  nb::ndarray<> owner_;         // keeps shape, strides and data alive; empty where the object does
  nb::ndarray<nb::ro> lender_;  // the same of a tensor that is only read
  bool bf16_ = false;
};

// "torch.Tensor", "numpy.ndarray": what a refusal says that came.
std::string type_text(nb::handle object);

// The stream that work on `device` has to join: `given` where the caller named one (an integer, or
// an object with cuda_stream or ptr), else the current one of the library that `like` comes from
// (None: of none), else that of torch or CuPy where loaded. No stream on a CPU.
Stream stream_for(Device device, nb::handle given, nb::handle like);

}  // namespace ragged::python
