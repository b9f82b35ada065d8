#include "indices.hpp"

#include <string>

#include "errors.hpp"

namespace ragged::python {
namespace {

// Entries of a list or tuple. Throws naming the first that is no whole number of 64 bits.
std::vector<std::int64_t> values_of(nb::handle object, std::string_view name) {
  std::vector<std::int64_t> values;
  values.reserve(nb::len(object));
  for (const nb::handle entry : nb::borrow(object)) {
    std::int64_t value = 0;
    if (!nb::try_cast(entry, value)) {
      throw WrongType(std::string(name) + "[" + std::to_string(values.size()) +
                      "] must be a whole number; got " + nb::repr(entry).c_str());
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

IndexArgument::IndexArgument(nb::handle object, std::string_view name) {
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
    values_ = values_of(object, name);
    view_ = IndexView(values_);
    return;
  }
  tensor_.emplace(object, name, Access::read);
  const dlpack::Tensor& raw = tensor_->raw();
  const bool whole = raw.dtype.lanes == 1 && !tensor_->is_bf16() &&
                     raw.dtype.code == std::uint8_t(nb::dlpack::dtype_code::Int);
  if (raw.ndim != 1 || !whole || (raw.dtype.bits != 32 && raw.dtype.bits != 64)) {
    throw Error(ErrorCode::invalid_argument,
                std::string(name) +
                    " must be a list or a one-dimensional tensor of int32 or int64; got " +
                    tensor_->describe());
  }
  view_ = IndexView(tensor_->data(), raw.dtype.bits == 32 ? IndexType::int32 : IndexType::int64,
                    raw.shape[0], tensor_->stride(0), tensor_->device());
}

}  // namespace ragged::python
