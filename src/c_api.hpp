#pragma once

// What every function of the C border shares: no exception leaves, structs of other versions are
// read and written by their size, text goes through a caller's buffer.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include <ragged/error.hpp>

namespace ragged::capi {

// Keeps `message` for ragged_last_error() on this thread and returns the code.
int fail(ErrorCode code, const char* message) noexcept;

// The body of a C function: RAGGED_OK, or the code of what it threw.
template <typename Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return static_cast<int>(ErrorCode::ok);
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "an allocation failed");
  } catch (const std::length_error&) {
    return fail(ErrorCode::out_of_memory, "an allocation larger than any address space");
  } catch (const std::exception& error) {
    return fail(ErrorCode::internal, error.what());
  } catch (...) {
    return fail(ErrorCode::internal, "an exception of an unknown type");
  }
}

[[noreturn]] void refuse(const std::string& message);

// Throws invalid_argument where `pointer` is null.
void require(const void* pointer, const char* argument);

// The characters of a required text argument.
std::string_view text(const char* value, const char* argument);
std::string_view text_or(const char* value, std::string_view otherwise) noexcept;

// 0 or 1; anything else is refused by name.
bool flag(std::int32_t value, const char* argument);
// A field that has no meaning yet; anything but 0 is refused by name.
void reserved(std::int32_t value, const char* argument);

// Writes `value` by the rule of ragged.h. Throws out_of_range where it does not fit.
void put_text(std::string_view value, char* buffer, std::size_t capacity, std::size_t* length);

// The struct_size at `source`, checked: at least the field itself, whole multiples of `alignment`,
// and no larger than any version could be.
std::size_t checked_size(const void* source, std::size_t alignment, const char* argument);
// Copies the first min(size, known) bytes of `source`; refuses a nonzero byte beyond `known`.
void read_struct(void* into, std::size_t known, const void* source, std::size_t alignment,
                 const char* argument);

// A caller's struct of any version as ours: fields that it lacks are zero.
template <typename T>
T read(const T* source, const char* argument) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  T value = {};
  read_struct(&value, sizeof(T), source, alignof(T), argument);
  value.struct_size = sizeof(T);
  return value;
}

// Fills a caller's struct of any version: fields beyond its size are left out, bytes that we do not
// know are zero, struct_size stays the caller's.
void write_struct(void* into, std::size_t known, const void* value, std::size_t alignment,
                  const char* argument);
template <typename T>
void write(T* target, const T& value, const char* argument) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  write_struct(target, sizeof(T), &value, alignof(T), argument);
}

// Element `index` of a caller's array, whose elements lie struct_size bytes apart. `stride` is the
// first element's checked_size.
template <typename T>
T read_element(const T* array, std::size_t stride, std::size_t index, const char* argument) {
  const auto* bytes = reinterpret_cast<const std::byte*>(array) + index * stride;
  const T value = read(reinterpret_cast<const T*>(bytes), argument);
  if (checked_size(bytes, alignof(T), argument) != stride) {
    refuse(std::string(argument) + "[" + std::to_string(index) +
           "].struct_size differs from the first element's, " + std::to_string(stride));
  }
  return value;
}

}  // namespace ragged::capi
