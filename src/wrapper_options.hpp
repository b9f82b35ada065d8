#pragma once

// What a wrapper's options mean: pure functions that check them and derive what a plan takes.

#include <optional>
#include <string_view>

#include <ragged/wrappers.hpp>

namespace ragged::detail {

// The problem of a kind under these options, not causal and with one source. Throws
// invalid_argument naming the option that is out of its range or belongs to another kind.
Problem problem_of(AttentionKind kind, const WrapperOptions& options);

// The facts to plan on. Throws invalid_argument where `facts` is of another device than `device`.
DeviceFacts facts_of(const WrapperOptions& options);

// The ceilings of capacity mode; none in eager mode. Throws invalid_argument naming the ceiling
// that is missing or below 1, in eager mode for a given one too.
std::optional<Ceilings> ceilings_of(AttentionKind kind, const WrapperOptions& options);

// Names of a plan's arguments as refusals use them.
struct ArgumentNames {
  std::string_view q;
  std::string_view keys;
};

// Throws out_of_range with count and ceiling where the layouts exceed a ceiling that the options
// give.
void check_ceilings(const WrapperOptions& options, const StepLayouts& layouts,
                    const ArgumentNames& names);

}  // namespace ragged::detail
