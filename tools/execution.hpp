#pragma once

// A case planned on a device, and run on tensors that the program owns.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ragged/run.hpp>

#include "device_run.hpp"
#include "tensors.hpp"

namespace CLI {
class App;
}

namespace ragged::tools {

// What --device, --threads and --backend say.
struct DeviceOptions {
  std::optional<std::string> device;
  std::optional<int> threads;
  RaggedAttnBackend backend = RaggedAttnBackend::AUTO;

  // Throws ragged::Error(invalid_argument) naming the option.
  [[nodiscard]] DeviceFacts facts() const;
};
void add_device_options(CLI::App& app, DeviceOptions& options);

struct Result {
  Tensor out;
  std::vector<float> lse;  // [tokens, num_qo_heads]
};
// Filled with NaN, so that a row that nobody wrote shows.
Result poisoned_result(const Case& c);

// The tensors of a run; no LSE and no workspace yet.
RunArguments arguments_for(const Plan& plan, const Inputs& inputs, const Tensor& out);

// "tiles of 48 x 128 (query rows x keys)": each that a unit of the plan has, or "no tiles".
std::string tiles_text(const Plan& plan);

class Execution {
 public:
  // Throws what make_plan throws, and invalid_argument for a device that is not here.
  Execution(const Case& c, const DeviceFacts& facts, RaggedAttnBackend backend);
  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  // One run; the microseconds that it takes, on a GPU without the copies. A GPU's result stays
  // there.
  double run(const Inputs& inputs, Result& result);
  // Brings what the last run wrote to `result`, where it is not there yet.
  void fetch(Result& result);

  // "cpu on cpu:avx512:2, tiles of 48 x 128 (query rows x keys)".
  [[nodiscard]] std::string describe() const;

 private:
  Plan plan_;
  AlignedBytes workspace_;
  std::unique_ptr<DeviceRun> device_;  // on a GPU
};

}  // namespace ragged::tools
