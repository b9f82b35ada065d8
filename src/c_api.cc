#include "c_api.hpp"

#include <array>
#include <cstring>

#include <ragged/c/base.h>
#include <ragged/layout.hpp>
#include <ragged/version.hpp>

namespace ragged::capi {
namespace {

struct LastError {
  std::string message;
  const char* text = "";  // of `message`, or static where even that could not be kept
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

// No version of any struct comes near this; a struct_size above it is garbage.
constexpr std::size_t kLargestStruct = 4096;

std::size_t size_field(const void* source) noexcept {
  std::size_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  return size;
}

}  // namespace

int fail(ErrorCode code, const char* message) noexcept {
  LastError& error = last_error();
  try {
    error.message = message;
    error.text = error.message.c_str();
  } catch (...) {
    error.text = "an allocation failed while keeping the message";
  }
  return static_cast<int>(code);
}

void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

void require(const void* pointer, const char* argument) {
  if (pointer == nullptr) refuse(std::string(argument) + " must not be NULL");
}

std::string_view text(const char* value, const char* argument) {
  require(value, argument);
  return value;
}

std::string_view text_or(const char* value, std::string_view otherwise) noexcept {
  return value == nullptr ? otherwise : std::string_view(value);
}

bool flag(std::int32_t value, const char* argument) {
  if (value != 0 && value != 1) {
    refuse(std::string(argument) + " must be 0 or 1; got " + std::to_string(value));
  }
  return value == 1;
}

void reserved(std::int32_t value, const char* argument) {
  if (value != 0) {
    refuse(std::string(argument) + " must be 0; got " + std::to_string(value));
  }
}

void put_text(std::string_view value, char* buffer, std::size_t capacity, std::size_t* length) {
  if (buffer == nullptr && capacity > 0) require(buffer, "buffer");
  if (buffer == nullptr && length == nullptr) refuse("buffer and length must not both be NULL");
  if (length != nullptr) *length = value.size();
  if (buffer == nullptr) return;
  if (capacity <= value.size()) {
    if (capacity > 0) buffer[0] = '\0';
    throw Error(ErrorCode::out_of_range, "the text and its zero need " +
                                             std::to_string(value.size() + 1) +
                                             " bytes; capacity is " + std::to_string(capacity));
  }
  std::memcpy(buffer, value.data(), value.size());
  buffer[value.size()] = '\0';
}

std::size_t checked_size(const void* source, std::size_t alignment, const char* argument) {
  require(source, argument);
  const std::size_t size = size_field(source);
  if (size < sizeof(std::size_t) || size > kLargestStruct || size % alignment != 0) {
    refuse(std::string(argument) +
           "->struct_size must be sizeof the struct in the caller's header; got " +
           std::to_string(size));
  }
  return size;
}

void read_struct(void* into, std::size_t known, const void* source, std::size_t alignment,
                 const char* argument) {
  const std::size_t size = checked_size(source, alignment, argument);
  std::memcpy(into, source, size < known ? size : known);
  const auto* bytes = static_cast<const unsigned char*>(source);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] != 0) {
      refuse(std::string(argument) + " holds a field at byte " + std::to_string(i) +
             " that this version does not know; its struct_size is " + std::to_string(size) +
             ", known are " + std::to_string(known));
    }
  }
}

void write_struct(void* into, std::size_t known, const void* value, std::size_t alignment,
                  const char* argument) {
  const std::size_t size = checked_size(into, alignment, argument);
  auto* bytes = static_cast<unsigned char*>(into);
  const std::size_t shared = size < known ? size : known;
  std::memcpy(bytes + sizeof(std::size_t),
              static_cast<const unsigned char*>(value) + sizeof(std::size_t),
              shared - sizeof(std::size_t));
  if (size > known) std::memset(bytes + known, 0, size - known);
}

}  // namespace ragged::capi

extern "C" {

const char* ragged_error_name(int code) {
  if (code < 0 || code > RAGGED_ERROR_INTERNAL) return "unknown";
  return ragged::to_string(static_cast<ragged::ErrorCode>(code));
}

const char* ragged_last_error(void) { return ragged::capi::last_error().text; }

int ragged_version(int32_t* major, int32_t* minor, int32_t* patch) {
  if (major != nullptr) *major = RAGGED_VERSION_MAJOR;
  if (minor != nullptr) *minor = RAGGED_VERSION_MINOR;
  if (patch != nullptr) *patch = RAGGED_VERSION_PATCH;
  return RAGGED_OK;
}

const char* ragged_version_text(void) { return RAGGED_VERSION; }

}  // extern "C"
