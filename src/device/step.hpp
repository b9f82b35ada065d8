#pragma once

// From a plan to the prologue's arguments: which offsets travel as words, which are read where they
// lie. Plain host code.

#include <cstdint>
#include <span>

#include <ragged/run.hpp>

#include "device/table.hpp"

namespace ragged::device {

// What a backend adds to a plan to have its table made.
struct StepShape {
  TableShape table;
  std::int64_t partial_slots = 0;
  std::size_t zeroed_bytes = 0;  // of the workspace, from its start: zero before a run
};

// Words of int32 that the host's offsets take; 0 where all lie on the device.
std::int64_t count_words(const StepLayouts& layouts) noexcept;

// Writes the host's offsets of `plan` to `words`, [count_words], and returns the arguments that
// read them at `words_at`, where they will lie when the prologue runs. Offsets of layouts that are
// not known are read where `arguments` says. Precondition: rows fit 31 bits.
StepArgs make_step(const Plan& plan, const StageArguments& arguments, const StepShape& shape,
                   std::span<std::int32_t> words, std::int32_t* words_at);

}  // namespace ragged::device
