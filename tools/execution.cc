#include "execution.hpp"

#include <algorithm>
#include <limits>

#include "backends/contract.hpp"
#include "options.hpp"
#include "timing.hpp"

namespace ragged::tools {

DeviceFacts DeviceOptions::facts() const {
  DeviceFacts result;
  if (device) {
    try {
      result = DeviceFacts::parse(*device);
    } catch (const Error& error) {
      throw Error(error.code(), std::string("--device: ") + error.what());
    }
  } else {
    result = DeviceFacts::host();
  }
  if (threads) {
    if (result.device.kind != DeviceKind::cpu) {
      throw Error(ErrorCode::invalid_argument,
                  "--threads: expected a CPU as --device, got '" + *device + "'");
    }
    // "cpu:avx2:4" has its own.
    if (device && std::count(device->begin(), device->end(), ':') == 2) {
      throw Error(ErrorCode::invalid_argument,
                  "--threads: expected it or the threads of --device, got " +
                      std::to_string(*threads) + " and '" + *device + "'");
    }
    result.threads = *threads;
  }
  return result;
}

void add_device_options(CLI::App& app, DeviceOptions& o) {
  const std::string group = "Where to compute it";
  add_value(
      app, group, "--device", "DEVICE",
      "cpu, cpu:SIMD, cpu:SIMD:THREADS, cuda, cuda:N, h200, h100 or a100; this CPU unless said. "
      "Example: --device cpu:avx2:8",
      [&](const std::string& text) { o.device = text; });
  add_value(app, group, "--threads", "N",
            "CPU threads, every core unless said. Example: --threads 1",
            [&](const std::string& text) {
              o.threads = static_cast<int>(parse_integer("--threads", text, 1, 4096));
            });
  add_value(app, group, "--backend", "NAME",
            "auto, reference, cpu, sm80, sm90, flashinfer or cudnn. Example: --backend reference",
            [&](const std::string& text) { o.backend = read_backend("--backend", text); });
}

Result poisoned_result(const Case& c) {
  std::int64_t tokens = 0;
  for (const std::int64_t length : c.q_lengths) tokens += length;
  const float poison = std::numeric_limits<float>::quiet_NaN();
  Result result;
  result.out = Tensor(c.problem.dtype, tokens, c.problem.num_qo_heads, c.problem.head_dim);
  for (std::int64_t i = 0; i < result.out.elements(); ++i) result.out.set(i, poison);
  result.lse.assign(static_cast<std::size_t>(tokens * c.problem.num_qo_heads), poison);
  return result;
}

Execution::Execution(const Case& c, const DeviceFacts& facts, RaggedAttnBackend backend) {
  if (!facts.absence.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "--device: " + facts.to_string() + " is not here: " + facts.absence);
  }
  make_plan(plan_, c.problem, c.layouts(), facts, built_backends(), backend);
  if (!facts.present) {
    throw Error(ErrorCode::invalid_argument, "--device: expected a device of this machine, got " +
                                                 facts.to_string() +
                                                 "; 'ragged plan' plans for any");
  }
  if (facts.device.kind != DeviceKind::cpu) {
    device_ = std::make_unique<DeviceRun>(plan_);
  } else {
    workspace_ = AlignedBytes(plan_.workspace_bytes);
  }
}

RunArguments arguments_for(const Plan& plan, const Inputs& inputs, const Tensor& out) {
  RunArguments arguments;
  arguments.q = inputs.q.view();
  arguments.k = inputs.k.view();
  arguments.v = inputs.v.view();
  arguments.out = out.view();
  if (plan.problem.two_sources) {
    arguments.prefix_k = inputs.prefix_k.view();
    arguments.prefix_v = inputs.prefix_v.view();
  }
  return arguments;
}

double Execution::run(const Inputs& inputs, Result& result) {
  if (device_) return device_->run(inputs, result.out, result.lse);
  RunArguments arguments = arguments_for(plan_, inputs, result.out);
  arguments.lse =
      LseView::packed(result.lse.data(), result.out.tokens(), plan_.problem.num_qo_heads);
  arguments.workspace = {workspace_.data(), workspace_.size()};
  return time_us([&] { ragged::run(plan_, arguments); });
}

void Execution::fetch(Result& result) {
  if (device_) device_->fetch(result.out, result.lse);
}

std::string tiles_text(const Plan& plan) {
  std::vector<std::string> tiles;
  for (const WorkUnit& unit : plan.work_units()) {
    const Tile& tile = plan.tiles.rules[unit.rule].tile;
    const std::string text = std::to_string(tile.q_rows) + " x " + std::to_string(tile.kv_rows);
    if (std::find(tiles.begin(), tiles.end(), text) == tiles.end()) tiles.push_back(text);
  }
  if (tiles.empty()) return "no tiles";
  std::string all = "tiles of ";
  for (std::size_t i = 0; i < tiles.size(); ++i) all += (i == 0 ? "" : " and ") + tiles[i];
  return all + " (query rows x keys)";
}

std::string Execution::describe() const {
  return plan_.backend_name + " on " + plan_.device.to_string() + ", " + tiles_text(plan_);
}

}  // namespace ragged::tools
