// ragged run: computes one case and says how far the result lies from the right answer.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ragged/version.hpp>

#include "atomic_file.hpp"
#include "commands.hpp"
#include "error_report.hpp"
#include "execution.hpp"
#include "file_case.hpp"
#include "options.hpp"
#include "safetensors.hpp"
#include "timing.hpp"

namespace ragged::tools {
namespace {

struct RunOptions {
  CaseOptions what;
  DeviceOptions where;
  std::string input;
  std::string output;
  std::uint64_t seed = 0;
  std::optional<int> repeats;  // none: 5, or fewer where that takes seconds
  CheckRows check;
  bool one_line = false;
  bool json = false;
};

struct Verdict {
  bool checked = false;
  bool right = true;
  Worst out;
  Worst lse;
  Tolerance tolerance;
  double max_score = 0;
  std::string against;
};

Verdict check(const RunOptions& o, const FileCase& file, const Plan& plan, const Result& result) {
  Verdict verdict;
  if (o.check.kind == CheckRows::Kind::none) return verdict;
  const WideInputs wide = widen(file.c, file.inputs);
  Expected expected;
  if (file.expected) {
    expected = *file.expected;
    verdict.against = "the file's out" + std::string(expected.lse.empty() ? "" : " and lse");
  } else {
    expected = reference_rows(file.c, wide, choose_rows(file.c, o.check, o.seed));
    // The reference against itself still proves the layout: each row is compared alone.
    verdict.against = plan.backend_name == to_string(RaggedAttnBackend::REFERENCE)
                          ? "the reference itself, row by row: "
                          : "the reference backend: ";
    const std::int64_t tokens = file.inputs.q.tokens();
    const auto rows = static_cast<std::int64_t>(expected.rows.size());
    verdict.against += rows == tokens ? "every row"
                                      : std::to_string(rows) + " of " + std::to_string(tokens) +
                                            " rows (--check all takes every one)";
  }
  const Plain plain = plain_error(file.c, wide, expected.rows);
  verdict.checked = true;
  verdict.max_score = plain.max_score;
  verdict.tolerance = tolerance_for(file.c.problem.dtype, plain);
  verdict.out = worst_out(expected, result.out);
  verdict.lse = worst_lse(expected, result.lse.data(), file.c.problem.num_qo_heads);
  verdict.right =
      verdict.out.error <= verdict.tolerance.out && verdict.lse.error <= verdict.tolerance.lse;
  return verdict;
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string time_text(double us) {
  return us < 1e4 ? formatted("%.1f us", us) : formatted("%.2f ms", us / 1e3);
}

void print_lines(const FileCase& file, const Execution& execution, const std::vector<double>& times,
                 const Verdict& verdict) {
  const double us = median(times);
  std::cout << file.c.name << ": " << file.c.describe() << '\n'
            << "backend  " << execution.describe() << '\n'
            << "time     " << time_text(us) << ", median of " << times.size() << " (spread "
            << formatted("%.0f %%", 100 * spread(times)) << "), "
            << formatted("%.1f GFLOP/s", execution.plan().flops() / us / 1e3) << '\n';
  if (!verdict.checked) {
    std::cout << "check    none\n";
    return;
  }
  std::cout << "against  " << verdict.against << '\n'
            << "out      largest error " << verdict.out.describe() << "; tolerance "
            << scientific(verdict.tolerance.out) << ", " << verdict.tolerance.reason << '\n';
  if (verdict.lse.compared > 0) {
    std::cout << "lse      largest error " << verdict.lse.describe() << "; tolerance "
              << scientific(verdict.tolerance.lse) << ", scores up to "
              << formatted("%.1f", verdict.max_score) << '\n';
  }
  std::cout << (verdict.right ? "right" : "WRONG") << '\n';
}

void print_line(const FileCase& file, const Execution& execution, const std::vector<double>& times,
                const Verdict& verdict) {
  std::cout << file.c.name << ": " << file.c.describe() << "; " << execution.plan().backend_name
            << " " << time_text(median(times));
  if (verdict.checked) {
    std::cout << "; out " << scientific(verdict.out.error) << " of "
              << scientific(verdict.tolerance.out);
    if (verdict.lse.compared > 0) {
      std::cout << ", lse " << scientific(verdict.lse.error) << " of "
                << scientific(verdict.tolerance.lse);
    }
    std::cout << (verdict.right ? "; right" : "; WRONG");
  }
  std::cout << '\n';
}

// Numbers that JSON has no form for, NaN and infinities, as their names.
nlohmann::ordered_json number_json(double value) {
  if (std::isfinite(value)) return value;
  return scientific(value);
}

nlohmann::ordered_json error_json(const Worst& worst, double tolerance) {
  nlohmann::ordered_json json = {{"largest_error", number_json(worst.error)},
                                 {"tolerance", tolerance},
                                 {"compared", worst.compared}};
  if (worst.compared > 0) {
    json["segment"] = worst.row.segment;
    json["token"] = worst.row.token;
    json["head"] = worst.head;
    if (worst.dim >= 0) json["dim"] = worst.dim;
    json["expected"] = number_json(worst.expected);
    json["got"] = number_json(worst.got);
  }
  return json;
}

void print_json(const FileCase& file, const Execution& execution, const std::vector<double>& times,
                const Verdict& verdict) {
  const Plan& plan = execution.plan();
  const double us = median(times);
  nlohmann::ordered_json json = {{"name", file.c.name},
                                 {"case", file.c.describe()},
                                 {"backend", plan.backend_name},
                                 {"device", plan.device.to_string()},
                                 {"tiles", tiles_text(plan)},
                                 {"us", us},
                                 {"spread_percent", 100 * spread(times)},
                                 {"runs", times.size()},
                                 {"gflops", plan.flops() / us / 1e3}};
  if (verdict.checked) {
    json["against"] = verdict.against;
    json["tolerance_reason"] = verdict.tolerance.reason;
    json["out"] = error_json(verdict.out, verdict.tolerance.out);
    if (verdict.lse.compared > 0) json["lse"] = error_json(verdict.lse, verdict.tolerance.lse);
    json["right"] = verdict.right;
  }
  std::cout << json.dump(1) << '\n';
}

safetensors::ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return safetensors::ElementType::bf16;
    case DType::fp16:
      return safetensors::ElementType::f16;
    case DType::fp32:
      break;
  }
  return safetensors::ElementType::f32;
}

void write_output(const std::string& path, const Plan& plan, const Result& result) {
  const Tensor& out = result.out;
  const std::vector<safetensors::Tensor> tensors = {
      {"out", element_type(out.dtype()), {out.tokens(), out.heads(), out.head_dim()}, out.bytes()},
      {"lse",
       safetensors::ElementType::f32,
       {out.tokens(), out.heads()},
       std::as_bytes(std::span(result.lse))}};
  write_file(path, safetensors::serialize(tensors,
                                          {{"backend", plan.backend_name},
                                           {"sm_scale", formatted("%.17g", plan.problem.sm_scale)},
                                           {"causal", plan.problem.causal ? "1" : "0"},
                                           {"ragged_version", RAGGED_VERSION}}));
}

std::vector<double> timed_runs(Execution& execution, const Inputs& inputs, Result& result,
                               std::optional<int> repeats) {
  constexpr double kEnoughUs = 2e6;
  std::vector<double> times;
  double total = 0;
  for (int i = 0; i < repeats.value_or(5); ++i) {
    if (!repeats && i > 0 && total + times.back() > kEnoughUs) break;
    times.push_back(execution.run(inputs, result));
    total += times.back();
  }
  return times;
}

int act(const RunOptions& o) {
  if (o.json && o.one_line) {
    throw Error(ErrorCode::invalid_argument, "--json: expected it without --one-line, got both");
  }
  std::error_code unknown;  // a file that is not there yet is no input
  if (!o.input.empty() && !o.output.empty() &&
      std::filesystem::equivalent(o.input, o.output, unknown)) {
    throw Error(ErrorCode::invalid_argument,
                "--output: expected another file than --input, got " + o.output + " for both");
  }
  if (!o.output.empty()) expect_writable(o.output);
  FileCase file;
  if (!o.input.empty()) {
    file = read_case(o.input, o.what);
  } else {
    if (!o.what.lengths && !o.what.workload) {
      throw Error(ErrorCode::invalid_argument,
                  "run: expected --input, --lengths or --workload, got none of them");
    }
    file.c = build_case(o.what);
    file.inputs = generate(file.c, o.seed);
  }
  Execution execution(file.c, o.where.facts(), o.where.backend);
  Result result = poisoned_result(file.c);
  execution.run(file.inputs, result);  // warms up; later runs write the same bits again
  const std::vector<double> times = timed_runs(execution, file.inputs, result, o.repeats);
  execution.fetch(result);
  const Verdict verdict = check(o, file, execution.plan(), result);
  if (verdict.right && !o.output.empty()) write_output(o.output, execution.plan(), result);
  const auto print = o.json ? print_json : o.one_line ? print_line : print_lines;
  print(file, execution, times, verdict);
  return verdict.right ? 0 : 1;
}

}  // namespace

Command add_run(CLI::App& program) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* app = add_command(
      program, "run",
      "Compute attention and compare it with the right answer; 0 within tolerance, 1 not");
  add_value(
      *app, "", "--input", "FILE",
      "A safetensors file with q, k, v and cu_seqlens (or q_cu_seqlens and kv_cu_seqlens; with "
      "prefix_k, prefix_v and prefix_cu_seqlens where keys lie in two sources), and out and lse to "
      "compare with. Example: --input "
      "examples/data/whisper_cross_bf16.safetensors",
      [o](const std::string& text) { o->input = text; });
  add_value(
      *app, "", "--output", "FILE",
      "Write out and lse as safetensors, if they are right. Example: --output out.safetensors",
      [o](const std::string& text) { o->output = text; });
  add_case_options(*app, o->what);
  add_device_options(*app, o->where);
  add_value(*app, "", "--seed", "N", "Of generated values, 0 unless said. Example: --seed 7",
            [o](const std::string& text) {
              o->seed = static_cast<std::uint64_t>(parse_integer("--seed", text, 0));
            });
  add_value(*app, "", "--repeats", "N",
            "Timed runs; 5, or as many as fit 2 s, unless said. Example: --repeats 20",
            [o](const std::string& text) {
              o->repeats = static_cast<int>(parse_integer("--repeats", text, 1, 1000000));
            });
  add_value(*app, "", "--check", "ROWS",
            "Rows to compare with the reference: auto, all, none or a count. Example: --check 100",
            [o](const std::string& text) { o->check = parse_check_rows("--check", text); });
  add_flag(*app, "", "--one-line", "Print one line. Example: --lengths 17 --one-line", o->one_line);
  add_flag(*app, "", "--json", "Print JSON. Example: --lengths 17 --json", o->json);
  return {app, [o] { return act(*o); }};
}

}  // namespace ragged::tools
