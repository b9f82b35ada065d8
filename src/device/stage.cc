#include "device/stage.hpp"

#include <array>
#include <vector>

#include "device/current_device.cuh"
#include "device/prologue.hpp"

namespace ragged::device {
namespace {

cudaError_t as_error(int status) noexcept { return static_cast<cudaError_t>(status); }

}  // namespace

void prepare_stage() { check(as_error(prepare_prologue()), "loading the prologue"); }

void stage_step(const Plan& plan, const StageArguments& arguments, const StepShape& shape) {
  const CurrentDevice current(plan.device.device.index);
  const TableLayout layout = table_layout(shape.table);
  auto* const words_at = reinterpret_cast<std::int32_t*>(
      static_cast<std::byte*>(arguments.table.data) + layout.words_at);
  const std::int64_t count = count_words(plan.layouts);
  const std::int64_t max_segments = plan.ceilings ? plan.ceilings->max_num_segments : 0;
  const auto launch = [&](std::int32_t* words) {
    const StepArgs args =
        make_step(plan, arguments, shape, {words, static_cast<std::size_t>(count)}, words_at);
    check(as_error(launch_prologue(args, {words, words_at, count}, max_segments,
                                   plan.device.sm_count, arguments.stream.handle)),
          "starting the prologue");
  };
  // Nearly every step; longer ones take memory for the time of the call.
  std::array<std::int32_t, kMostInlineWords> inline_words;
  if (count <= kMostInlineWords) {
    launch(inline_words.data());
  } else {
    std::vector<std::int32_t> words(static_cast<std::size_t>(count));
    launch(words.data());
  }
}

}  // namespace ragged::device
