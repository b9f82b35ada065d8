#pragma once

// cu_seqlens and their like: lists of whole numbers, or one-dimensional tensors of int32 or int64
// on any device.

#include <optional>
#include <string_view>
#include <vector>

#include "tensors.hpp"

namespace ragged::python {

class IndexArgument {
 public:
  // Throws WrongType where `object` is neither, invalid_argument where a tensor has another shape
  // or dtype.
  IndexArgument(nb::handle object, std::string_view name);

  [[nodiscard]] const IndexView& view() const noexcept { return view_; }

 private:
  std::optional<TensorArgument> tensor_;
  std::vector<std::int64_t> values_;
  IndexView view_;
};

}  // namespace ragged::python
