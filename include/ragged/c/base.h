#pragma once

// Error codes, the last message, the version, and the names of dtypes, kinds and backends.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define RAGGED_C_BEGIN extern "C" {
#define RAGGED_C_END }
#else
#define RAGGED_C_BEGIN
#define RAGGED_C_END
#endif

#if defined(__GNUC__)
#define RAGGED_C_API __attribute__((visibility("default")))
#else
#define RAGGED_C_API
#endif

RAGGED_C_BEGIN

// What a function returns; the values of ragged::ErrorCode.
enum {
  RAGGED_OK = 0,
  RAGGED_ERROR_INVALID_ARGUMENT = 1,  // malformed; the message names it, what was expected and came
  RAGGED_ERROR_OUT_OF_RANGE = 2,   // above a ceiling or a capacity; the message holds both numbers
  RAGGED_ERROR_UNSUPPORTED = 3,    // no backend serves it; the message holds each backend's reason
  RAGGED_ERROR_NOT_PLANNED = 4,    // run without a plan, or on a label not declared this step
  RAGGED_ERROR_INVALID_STATE = 5,  // a call out of order
  RAGGED_ERROR_DEVICE = 6,         // the device or its driver refused
  RAGGED_ERROR_OUT_OF_MEMORY = 7,  // an allocation failed
  RAGGED_ERROR_INTERNAL = 8        // a bug of this library, or an exception out of a callback
};

// "ok", "invalid_argument", ...; "unknown" for any other number. Static, never NULL.
RAGGED_C_API const char* ragged_error_name(int code);

// The message of this thread's last call that did not return RAGGED_OK; "" before the first. Never
// NULL; valid until this thread's next refused call.
RAGGED_C_API const char* ragged_last_error(void);

// The version of the library that is loaded. Any of the three may be NULL.
RAGGED_C_API int ragged_version(int32_t* major, int32_t* minor, int32_t* patch);
// The same as text, "major.minor.patch". Static, never NULL.
RAGGED_C_API const char* ragged_version_text(void);

// Element type of q, k, v and out.
typedef int32_t ragged_dtype;
enum { RAGGED_DTYPE_NONE = 0, RAGGED_DTYPE_BF16 = 1, RAGGED_DTYPE_FP16 = 2, RAGGED_DTYPE_FP32 = 3 };

// Element type of offsets.
typedef int32_t ragged_index_type;
enum { RAGGED_INDEX_NONE = 0, RAGGED_INDEX_INT32 = 1, RAGGED_INDEX_INT64 = 2 };

typedef int32_t ragged_kind;
enum {
  RAGGED_KIND_SELF = 0,
  RAGGED_KIND_CROSS = 1,
  RAGGED_KIND_BLOCK_CAUSAL = 2,
  RAGGED_KIND_PREFIXED = 3
};

// Which backend serves. AUTO takes the best one that can; any other value pins that backend.
typedef int32_t ragged_backend;
enum {
  RAGGED_BACKEND_AUTO = 0,
  RAGGED_BACKEND_FLASHINFER = 1,
  RAGGED_BACKEND_REFERENCE = 2,
  RAGGED_BACKEND_CPU = 3,
  RAGGED_BACKEND_SM80 = 4,
  RAGGED_BACKEND_SM90 = 5,
  RAGGED_BACKEND_CUDNN = 6
};

enum { RAGGED_DEVICE_CPU = 0, RAGGED_DEVICE_CUDA = 1 };
// All zero: the CPU. Of a fixed size; passed inside other structs.
typedef struct ragged_device {
  int32_t kind;  // RAGGED_DEVICE_CPU or RAGGED_DEVICE_CUDA
  int32_t index;
} ragged_device;

// Names as users write them: "bf16"; "block_causal"; "cpu". "unknown" for any other number. Static,
// never NULL.
RAGGED_C_API const char* ragged_dtype_name(ragged_dtype dtype);
RAGGED_C_API const char* ragged_kind_name(ragged_kind kind);
RAGGED_C_API const char* ragged_backend_name(ragged_backend backend);

// The inverse. Refused as RAGGED_ERROR_INVALID_ARGUMENT, naming the text and the known names.
RAGGED_C_API int ragged_dtype_parse(const char* text, ragged_dtype* dtype);
RAGGED_C_API int ragged_kind_parse(const char* text, ragged_kind* kind);
RAGGED_C_API int ragged_backend_parse(const char* text, ragged_backend* backend);
// "cpu", "cuda", "cuda:1".
RAGGED_C_API int ragged_device_parse(const char* text, ragged_device* device);

RAGGED_C_END
