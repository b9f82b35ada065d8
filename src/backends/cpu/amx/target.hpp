#pragma once

// Marks the functions between RAGGED_AMX_BEGIN and RAGGED_AMX_END as compiled for AMX machines. The
// file itself is compiled for the baseline: an inline function of another header that is emitted
// here must not hold wide instructions.

#include <immintrin.h>

#define RAGGED_AMX_FEATURES                                                                \
  "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512bf16,avx2,fma,bmi,bmi2,lzcnt,popcnt," \
  "amx-tile,amx-bf16"
#define RAGGED_AMX_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define RAGGED_AMX_PUSH(features) \
  RAGGED_AMX_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define RAGGED_AMX_BEGIN RAGGED_AMX_PUSH(RAGGED_AMX_FEATURES)
#define RAGGED_AMX_END RAGGED_AMX_PRAGMA(clang attribute pop)
#else
#define RAGGED_AMX_PUSH(features) \
  RAGGED_AMX_PRAGMA(GCC push_options) RAGGED_AMX_PRAGMA(GCC target features)
#define RAGGED_AMX_BEGIN RAGGED_AMX_PUSH((RAGGED_AMX_FEATURES))
#define RAGGED_AMX_END RAGGED_AMX_PRAGMA(GCC pop_options)
#endif
