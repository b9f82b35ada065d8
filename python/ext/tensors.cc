#include "tensors.hpp"

#include <string>
#include <unordered_map>

#include "errors.hpp"

namespace ragged::python {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

// What is known of a Python type once and for all. Types are kept alive: there are few of them.
struct TypeFacts {
  nb::object type;
  const dlpack::ExchangeApi* exchange = nullptr;
  bool is_torch = false;
  bool is_numpy = false;
  // JAX's, whose values may still be on their way when Python has the array.
  bool is_promise = false;
};

// The table of a type, of a major version that we know; null where it has none.
const dlpack::ExchangeApi* exchange_of(nb::handle type) {
  constexpr std::uint32_t kMajor = 1;
  const nb::object capsule = nb::getattr(type, dlpack::kExchangeAttribute, nb::none());
  if (capsule.is_none() || PyCapsule_IsValid(capsule.ptr(), dlpack::kExchangeCapsule) == 0) {
    return nullptr;
  }
  auto* header = static_cast<dlpack::ExchangeHeader*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
  while (header != nullptr && header->version.major > kMajor) header = header->older;
  if (header == nullptr || header->version.major != kMajor) return nullptr;
  return reinterpret_cast<const dlpack::ExchangeApi*>(header);
}

const TypeFacts& facts_of(nb::handle object) {
  // Never destroyed: it holds Python objects, and the interpreter may be gone by then.
  static auto& known = *new std::unordered_map<PyObject*, TypeFacts>;
  const nb::handle type = object.type();
  const auto found = known.find(type.ptr());
  if (found != known.end()) return found->second;
  TypeFacts facts;
  facts.type = nb::borrow(type);
  const nb::str module(nb::getattr(type, "__module__", nb::str("")));
  facts.is_numpy = std::string_view(module.c_str()) == "numpy";
  facts.is_promise = nb::hasattr(type, "block_until_ready");
  facts.exchange = exchange_of(type);
  facts.is_torch = nb::hasattr(type, "requires_grad") && nb::hasattr(type, "grad_fn");
  return known.emplace(type.ptr(), std::move(facts)).first->second;
}

// An inference library has no backward pass: a result that autograd takes for a constant would be
// silently wrong. Returns whether the tensor requires grad where nobody records it.
bool refuse_gradients(nb::handle object, std::string_view name) {
  if (!nb::cast<bool>(object.attr("requires_grad"))) return false;
  if (!nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")())) return true;
  refuse(std::string(name) +
         " requires grad, and this library is for inference only: it has no backward pass; run "
         "under torch.no_grad() or torch.inference_mode(), or pass " +
         std::string(name) + ".detach()");
}

// NumPy makes the name of a dtype anew at every look, which costs more than a run: what was found
// is kept. Dtypes are few; past a bound they are no longer remembered.
bool is_bf16_dtype(nb::handle dtype) {
  constexpr std::size_t kMostKnown = 64;
  static auto& known = *new std::unordered_map<PyObject*, std::pair<nb::object, bool>>;
  const auto found = known.find(dtype.ptr());
  if (found != known.end()) return found->second.second;
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  const bool is_bf16 =
      nb::isinstance<nb::str>(name) && std::string_view(nb::str(name).c_str()) == "bfloat16";
  if (known.size() < kMostKnown) known.emplace(dtype.ptr(), std::pair(nb::borrow(dtype), is_bf16));
  return is_bf16;
}

bool is_numpy_bf16(nb::handle object, const TypeFacts& facts) {
  return facts.is_numpy && is_bf16_dtype(nb::getattr(object, "dtype", nb::none()));
}

std::string dtype_text(const TensorArgument& tensor) {
  if (tensor.is_bf16()) return "bf16";
  static constexpr const char* kKinds[] = {"int",    "uint",    "float", "opaque",
                                           "bfloat", "complex", "bool"};
  const auto& dtype = tensor.raw().dtype;
  const std::string kind =
      dtype.code < 7 ? kKinds[dtype.code] : "code " + std::to_string(dtype.code);
  return kind + std::to_string(dtype.bits);
}

DType dtype_of(const TensorArgument& tensor) {
  const auto& dtype = tensor.raw().dtype;
  if (tensor.is_bf16()) return DType::bf16;
  if (dtype.lanes == 1) {
    if (dtype.code == std::uint8_t(nb::dlpack::dtype_code::Bfloat) && dtype.bits == 16) {
      return DType::bf16;
    }
    if (dtype.code == std::uint8_t(nb::dlpack::dtype_code::Float)) {
      if (dtype.bits == 16) return DType::fp16;
      if (dtype.bits == 32) return DType::fp32;
    }
  }
  refuse(std::string(tensor.name()) + " must be of dtype bf16, fp16 or fp32; got " +
         dtype_text(tensor));
}

std::string shape_text(const dlpack::Tensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

void require_dimensions(const TensorArgument& tensor, int ndim, const char* expected) {
  if (tensor.raw().ndim == ndim) return;
  refuse(std::string(tensor.name()) + " must be " + expected + "; got shape " +
         shape_text(tensor.raw()));
}

// The fields of a tensor that nanobind holds.
template <typename... Annotations>
dlpack::Tensor fields_of(const nb::ndarray<Annotations...>& array) {
  dlpack::Tensor tensor;
  tensor.data = array.data_handle();
  tensor.device = {array.device_type(), array.device_id()};
  tensor.ndim = static_cast<std::int32_t>(array.ndim());
  tensor.dtype = array.dtype();
  tensor.shape = const_cast<std::int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<std::int64_t*>(array.stride_ptr());
  tensor.byte_offset = array.byte_offset();
  return tensor;
}

Stream stream_of_handle(nb::handle given) {
  for (const char* attribute : {"cuda_stream", "ptr", "handle"}) {
    const nb::object value = nb::getattr(given, attribute, nb::none());
    if (!value.is_none()) return stream_of_handle(value);
  }
  std::uintptr_t value = 0;
  if (!nb::try_cast(given, value)) {
    throw WrongType("stream must be an integer, or an object with cuda_stream or ptr; got " +
                    type_text(given));
  }
  return {reinterpret_cast<void*>(value)};
}

}  // namespace

std::string type_text(nb::handle object) {
  const nb::handle type = object.type();
  const std::string module = nb::str(nb::getattr(type, "__module__", nb::str(""))).c_str();
  const std::string name = nb::str(nb::getattr(type, "__qualname__", nb::str("?"))).c_str();
  return module.empty() || module == "builtins" ? name : module + "." + name;
}

TensorArgument::TensorArgument(nb::handle object, std::string_view name, Access access)
    : name_(name) {
  const TypeFacts& facts = facts_of(object);
  const bool requires_grad = facts.is_torch && refuse_gradients(object, name);
  if (facts.is_promise) object.attr("block_until_ready")();
  if (facts.exchange != nullptr && facts.exchange->tensor_from_object != nullptr) {
    if (facts.exchange->tensor_from_object(object.ptr(), &tensor_) == 0) return;
    const nb::python_error failed;
    refuse(std::string(name) + " cannot be read: " + nb::str(failed.value()).c_str());
  }
  if (requires_grad) {
    // __dlpack__ of torch refuses these, also where nothing is recorded.
    import_by_protocol(object.attr("detach")(), access);
    return;
  }
  if (is_numpy_bf16(object, facts)) {
    // NumPy has no bfloat16 of its own, and hands that of ml_dtypes to nobody.
    const nb::object bits = object.attr("view")("uint16");
    import_by_protocol(bits, access);
    bf16_ = true;
    return;
  }
  import_by_protocol(object, access);
}

void TensorArgument::import_by_protocol(nb::handle object, Access access) {
  if (nb::ndarray_check(object)) {
    if (access == Access::write) {
      if (nb::try_cast(object, owner_, false)) {
        tensor_ = fields_of(owner_);
        return;
      }
      if (!nb::try_cast(object, lender_, false)) {
        refuse(std::string(name_) +
               " cannot be read by DLPack or as a buffer: " + type_text(object));
      }
      refuse(std::string(name_) + " must be writable; this " + type_text(object) + " is read-only");
    }
    if (nb::try_cast(object, lender_, false)) {
      tensor_ = fields_of(lender_);
      return;
    }
    refuse(std::string(name_) + " cannot be read by DLPack or as a buffer: " + type_text(object));
  }
  throw WrongType(std::string(name_) +
                  " must be a tensor that speaks DLPack (torch, JAX, NumPy, CuPy); got " +
                  type_text(object));
}

Device TensorArgument::device() const {
  switch (tensor_.device.device_type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return {DeviceKind::cpu, 0};
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return {DeviceKind::cuda, tensor_.device.device_id};
    default:
      refuse(std::string(name_) + " must be on a CPU or a CUDA device; got DLPack's device type " +
             std::to_string(tensor_.device.device_type));
  }
}

void* TensorArgument::data() const noexcept {
  if (tensor_.data == nullptr) return nullptr;
  return static_cast<char*>(tensor_.data) + tensor_.byte_offset;
}

std::int64_t TensorArgument::stride(int dimension) const noexcept {
  if (tensor_.strides != nullptr) return tensor_.strides[dimension];
  std::int64_t stride = 1;
  for (int i = tensor_.ndim - 1; i > dimension; --i) stride *= tensor_.shape[i];
  return stride;
}

std::string TensorArgument::describe() const {
  return dtype_text(*this) + " of shape " + shape_text(tensor_);
}

TensorView TensorArgument::view() const {
  require_dimensions(*this, 3, "[tokens, heads, head_dim]");
  TensorView view;
  view.data = data();
  view.dtype = dtype_of(*this);
  for (int i = 0; i < 3; ++i) {
    view.shape[static_cast<std::size_t>(i)] = tensor_.shape[i];
    view.strides[static_cast<std::size_t>(i)] = stride(i);
  }
  view.device = device();
  return view;
}

LseView TensorArgument::lse_view() const {
  require_dimensions(*this, 2, "[tokens, num_qo_heads]");
  if (dtype_of(*this) != DType::fp32) {
    refuse(std::string(name_) + " must be of dtype fp32; got " + dtype_text(*this));
  }
  LseView view;
  view.data = static_cast<float*>(data());
  for (int i = 0; i < 2; ++i) {
    view.shape[static_cast<std::size_t>(i)] = tensor_.shape[i];
    view.strides[static_cast<std::size_t>(i)] = stride(i);
  }
  view.device = device();
  return view;
}

Stream stream_for(Device device, nb::handle given, nb::handle like) {
  if (device.kind == DeviceKind::cpu) return {};
  if (!given.is_none()) return stream_of_handle(given);
  const TypeFacts& facts = facts_of(like);
  if (facts.exchange != nullptr && facts.exchange->current_stream != nullptr) {
    Stream stream;
    if (facts.exchange->current_stream(dlpack::kCuda, device.index, &stream.handle) == 0) {
      return stream;
    }
    throw nb::python_error();
  }
  return stream_of_handle(
      nb::module_::import_("ragged_attention._streams").attr("current_stream")(device.index));
}

}  // namespace ragged::python
