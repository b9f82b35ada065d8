#pragma once

// Backend::stage for every backend whose steps the prologue plans.

#include <ragged/run.hpp>

#include "device/step.hpp"

namespace ragged::device {

// Loads the prologue onto the current device, so that a stage may be captured at once.
void prepare_stage();

// Starts the prologue of the plan on the stream; allocates no device memory and never synchronizes.
// Throws Error(device) in the runtime's words.
void stage_step(const Plan& plan, const StageArguments& arguments, const StepShape& shape);

}  // namespace ragged::device
