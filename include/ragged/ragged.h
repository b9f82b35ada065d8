#pragma once

// The whole C interface: everything that the C++ wrappers and the manager do, as C11 that also
// compiles as C++.
//
// Structs begin with `struct_size`, which the caller sets to sizeof(the struct) with everything
// else zero before filling in: 0 and NULL are the default of every field that has one. A smaller
// size, of an older header, is accepted and the fields beyond it take their defaults; a larger one,
// of a newer header, is accepted while all that is unknown here is zero, and refused otherwise.
//
// Functions return RAGGED_OK or another code of ragged/c/base.h, and leave a message for
// ragged_last_error(). No exception ever leaves them. NULL where a pointer is needed is refused as
// RAGGED_ERROR_INVALID_ARGUMENT. Flags are 0 or 1.
//
// Handles come from a ..._create and end with their ..._destroy, which takes NULL and does nothing.
// One handle is not for use by two threads at once; two handles never disturb each other.
//
// Text comes back through (buffer, capacity, length): `length` receives the bytes without the
// terminating zero; with buffer NULL and capacity 0 nothing else happens. A buffer of at most
// `length` bytes is refused as RAGGED_ERROR_OUT_OF_RANGE. `length` may be NULL where buffer is not.

#include <ragged/c/base.h>
#include <ragged/c/config.h>
#include <ragged/c/helpers.h>
#include <ragged/c/manager.h>
#include <ragged/c/plan.h>
#include <ragged/c/runtime.h>
#include <ragged/c/tensor.h>
#include <ragged/c/wrapper.h>
