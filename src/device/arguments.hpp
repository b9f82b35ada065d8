#pragma once

// From a run's tensors to what its kernels are launched with. Plain host code, shared by the
// backends whose steps lie in a table.

#include <ragged/run.hpp>

#include "device/attention_args.hpp"

namespace ragged::device {

// Everything but `units` of a rule's own. Precondition: run() has checked the tensors.
AttentionArgs attention_args(const Plan& plan, const RunArguments& arguments);

}  // namespace ragged::device
