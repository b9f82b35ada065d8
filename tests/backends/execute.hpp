#pragma once

// Runs one case on one target, by any of the ways in which a user can.

#include <variant>

#include <ragged/wrappers.hpp>

#include "backends/step.hpp"
#include "backends/target.hpp"

namespace ragged::test {

enum class Path : std::uint8_t {
  plan,      // make_plan and run
  wrapper,   // the kind's wrapper, eager
  capacity,  // the kind's wrapper in capacity mode, ceilings above the case
};

struct How {
  Path path = Path::plan;
  Poison poison = Poison::nan;
  bool lse = true;
  Executor* executor = nullptr;
  std::int64_t only_segment = -1;
};

// Plans and runs; checks that nothing but live rows was written, and that the workspace was not
// overrun.
Result execute(const Target& target, const Data& data, const How& how = {});

// Whether the target refuses these tensors for their alignment, as it may where a case says so.
bool refuses_alignment(const Target& target, const Data& data);

// Ceilings somewhat above what the case needs.
Ceilings roomy_ceilings(const Step& step);

WrapperOptions wrapper_options(const Target& target, const Case& c, DType dtype);

// cu_seqlens of a step without gaps; kv and prefix where its kind has them.
struct StepOffsets {
  IndexView q;
  IndexView kv;
  IndexView prefix;
};

// The wrapper of a case's kind.
class AnyWrapper {
 public:
  AnyWrapper(const Case& c, const WrapperOptions& options);
  void plan(const Step& step);
  void plan(const Case& c, const StepOffsets& offsets, Stream stream = {});
  void run(const Step& step, bool with_lse = true);
  // Tensors, LSE and stream of the arguments.
  void run(const Case& c, const RunArguments& arguments);
  void check(Stream stream = {});
  [[nodiscard]] const WrapperBase& base() const;

 private:
  static std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper, PrefixedPrefillWrapper,
                      RaggedBlockCausalWrapper>
  make(const Case& c, const WrapperOptions& options);
  std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper, PrefixedPrefillWrapper,
               RaggedBlockCausalWrapper>
      wrapper_;
};

// A plan's scratch in a target's memory, with a border that overrun() checks.
class Scratch {
 public:
  Scratch(Memory& memory, std::size_t bytes);
  [[nodiscard]] Workspace workspace() const { return {buffer_.data(), bytes_}; }
  [[nodiscard]] bool overrun() const;

 private:
  Memory* memory_;
  std::size_t bytes_;
  std::size_t border_;
  Buffer buffer_;
};

}  // namespace ragged::test
