#include "safetensors.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include <ragged/error.hpp>

namespace ragged::safetensors {
namespace {

using Json = nlohmann::json;

struct TypeName {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<TypeName, 15> kTypes = {{
    {ElementType::boolean, "BOOL", 1},
    {ElementType::u8, "U8", 1},
    {ElementType::i8, "I8", 1},
    {ElementType::f8_e4m3, "F8_E4M3", 1},
    {ElementType::f8_e5m2, "F8_E5M2", 1},
    {ElementType::i16, "I16", 2},
    {ElementType::u16, "U16", 2},
    {ElementType::f16, "F16", 2},
    {ElementType::bf16, "BF16", 2},
    {ElementType::i32, "I32", 4},
    {ElementType::u32, "U32", 4},
    {ElementType::f32, "F32", 4},
    {ElementType::i64, "I64", 8},
    {ElementType::u64, "U64", 8},
    {ElementType::f64, "F64", 8},
}};

// What the format allows a header to be, at most.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "safetensors: " + what);
}

// The text of a name from a file, short enough for one line and without control characters.
std::string shown(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 64)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return result + (text.size() > 64 ? "...'" : "'");
}

std::uint64_t header_length(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) {
    refuse("expected at least 8 bytes, got " + std::to_string(bytes.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    refuse("header length: expected at most " + std::to_string(kMaxHeaderBytes) + ", got " +
           std::to_string(length));
  }
  if (length > bytes.size() - 8) {
    refuse("header length: expected at most the " + std::to_string(bytes.size() - 8) +
           " bytes that follow it, got " + std::to_string(length));
  }
  return length;
}

Json parse_header(std::string_view text) {
  if (text.empty() || text.front() != '{') refuse("header: expected a JSON object");
  // JSON itself lets a name come twice and a later one win; here that would hide a tensor.
  std::array<std::set<std::string>, 3> names;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > 3) refuse("header: nested deeper than name, field, list");
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start && level < names.size()) names[level].clear();
    if (event == Json::parse_event_t::key && level >= 1 && level <= names.size()) {
      const auto& name = value.get_ref<const std::string&>();
      if (!names[level - 1].insert(name).second) refuse("header: " + shown(name) + " comes twice");
    }
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (!header.is_object()) refuse("header: expected a JSON object");
    return header;
  } catch (const Json::exception& error) {
    refuse("header: not JSON near byte " + [&] {
      const auto* parse_error = dynamic_cast<const Json::parse_error*>(&error);
      return parse_error != nullptr ? std::to_string(parse_error->byte) : std::string("0");
    }());
  }
}

std::map<std::string, std::string> read_metadata(const Json& entry) {
  if (!entry.is_object()) refuse("__metadata__: expected an object of strings");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) refuse("__metadata__: expected a string for " + shown(key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

const Json& field(const Json& entry, const std::string& name, const char* key) {
  const auto it = entry.find(key);
  if (it == entry.end()) refuse(shown(name) + ": '" + key + "' is missing");
  return *it;
}

ElementType read_type(const Json& entry, const std::string& name) {
  const Json& value = field(entry, name, "dtype");
  if (value.is_string()) {
    for (const TypeName& type : kTypes) {
      if (value.get_ref<const std::string&>() == type.name) return type.type;
    }
    refuse(shown(name) + ": dtype " + shown(value.get_ref<const std::string&>()) + " is not known");
  }
  refuse(shown(name) + ": expected a string for 'dtype'");
}

// A list of integers in [0, 2^63).
std::vector<std::int64_t> read_integers(const Json& entry, const std::string& name,
                                        const char* key) {
  const Json& value = field(entry, name, key);
  if (!value.is_array()) refuse(shown(name) + ": expected a list for '" + key + "'");
  std::vector<std::int64_t> result;
  result.reserve(value.size());
  for (const Json& item : value) {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > kMax) {
      refuse(shown(name) + ": expected integers in [0, 2^63) in '" + key + "'");
    }
    result.push_back(item.get<std::int64_t>());
  }
  return result;
}

// Bytes of a shape; throws where they leave 63 bits.
std::int64_t shape_bytes(const Tensor& tensor) {
  auto bytes = static_cast<std::int64_t>(size_bytes(tensor.type));
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return 0;
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      refuse(shown(tensor.name) + ": the size of its shape does not fit 63 bits");
    }
  }
  return bytes;
}

Tensor read_tensor(const std::string& name, const Json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) refuse(shown(name) + ": expected an object");
  Tensor tensor;
  tensor.name = name;
  tensor.type = read_type(entry, name);
  tensor.shape = read_integers(entry, name, "shape");
  const std::vector<std::int64_t> offsets = read_integers(entry, name, "data_offsets");
  if (offsets.size() != 2) {
    refuse(shown(name) + ": expected 2 data_offsets, got " + std::to_string(offsets.size()));
  }
  const auto size = static_cast<std::int64_t>(data.size());
  if (offsets[0] > offsets[1] || offsets[1] > size) {
    refuse(shown(name) + ": data_offsets [" + std::to_string(offsets[0]) + ", " +
           std::to_string(offsets[1]) + "] do not lie in the " + std::to_string(size) +
           " bytes of data");
  }
  const std::int64_t expected = shape_bytes(tensor);
  if (offsets[1] - offsets[0] != expected) {
    refuse(shown(name) + ": its shape and dtype take " + std::to_string(expected) +
           " bytes, its data_offsets hold " + std::to_string(offsets[1] - offsets[0]));
  }
  tensor.data =
      data.subspan(static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(expected));
  return tensor;
}

// Tensors in the order of their data must follow each other without overlap or holes.
void check_order(std::vector<Tensor>& tensors, std::span<const std::byte> data) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
    return a.data.size() < b.data.size();  // an empty one lies before what starts with it
  });
  std::ptrdiff_t end = 0;
  for (const Tensor& tensor : tensors) {
    const std::ptrdiff_t begin = tensor.data.data() - data.data();
    if (begin < end) refuse(shown(tensor.name) + ": overlaps the tensor before it");
    if (begin > end) {
      refuse(shown(tensor.name) + ": " + std::to_string(begin - end) +
             " bytes before it belong to no tensor");
    }
    end = begin + static_cast<std::ptrdiff_t>(tensor.data.size());
  }
  if (end != static_cast<std::ptrdiff_t>(data.size())) {
    refuse("the last " + std::to_string(static_cast<std::ptrdiff_t>(data.size()) - end) +
           " bytes belong to no tensor");
  }
}

}  // namespace

std::string_view to_string(ElementType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::size_t size_bytes(ElementType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

std::int64_t Tensor::elements() const noexcept {
  return static_cast<std::int64_t>(data.size() / size_bytes(type));
}

const Tensor* Archive::find(std::string_view name) const noexcept {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&](const Tensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

Archive parse(std::span<const std::byte> bytes) {
  const auto length = static_cast<std::size_t>(header_length(bytes));
  const auto text = bytes.subspan(8, length);
  const std::span<const std::byte> data = bytes.subspan(8 + length);
  const Json header = parse_header({reinterpret_cast<const char*>(text.data()), text.size()});

  Archive archive;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      archive.metadata = read_metadata(entry);
    } else {
      archive.tensors.push_back(read_tensor(name, entry, data));
    }
  }
  check_order(archive.tensors, data);
  return archive;
}

File::File(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  if (size < 0 || size == std::numeric_limits<std::streamoff>::max()) {
    throw Error(ErrorCode::invalid_argument, path + ": expected a readable file");
  }
  bytes_.resize(static_cast<std::size_t>(size));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes_.data()), size);
  if (!stream) throw Error(ErrorCode::invalid_argument, path + ": reading it failed");
  try {
    archive_ = parse(bytes_);
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what());
  }
}

std::vector<std::byte> serialize(const std::vector<Tensor>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const Tensor* a, const Tensor* b) {
    return size_bytes(a->type) > size_bytes(b->type);
  });

  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const Tensor* tensor : order) {
    if (shape_bytes(*tensor) != static_cast<std::int64_t>(tensor->data.size())) {
      refuse(shown(tensor->name) + ": its shape and dtype take " +
             std::to_string(shape_bytes(*tensor)) + " bytes, its data has " +
             std::to_string(tensor->data.size()));
    }
    if (header.contains(tensor->name)) refuse(shown(tensor->name) + " comes twice");
    header[tensor->name] = {{"dtype", to_string(tensor->type)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->data.size()}}};
    offset += tensor->data.size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');

  std::vector<std::byte> bytes(8 + text.size() + offset);
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>((text.size() >> (8 * i)) & 0xff);
  }
  std::byte* out = std::transform(text.begin(), text.end(), bytes.data() + 8,
                                  [](char c) { return static_cast<std::byte>(c); });
  for (const Tensor* tensor : order) {
    out = std::copy(tensor->data.begin(), tensor->data.end(), out);
  }
  return bytes;
}

}  // namespace ragged::safetensors
