#pragma once

// The tensors of one run, from a wrapper's or a manager's caller.

#include <ragged/c/wrapper.h>
#include <ragged/run.hpp>

#include "c_api_values.hpp"

namespace ragged::capi {

struct RunViews {
  TensorView q, k, v, out;
  LseView lse;
  bool two_sources = false;
  TensorView prefix_k, prefix_v;  // two sources only
  Stream stream;
};

RunViews to_run_views(const ragged_run_arguments* arguments);

}  // namespace ragged::capi
