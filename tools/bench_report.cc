#include "bench_report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <ragged/version.hpp>

namespace ragged::tools {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const BenchRow& row) {
  Json json = {{"workload", row.workload}, {"provider", row.provider}};
  if (!row.version.empty()) json["version"] = row.version;
  json.update({{"threads", row.threads},
               {"dtype", to_string(row.dtype)},
               {"us", row.us},
               {"us_min", row.us_min},
               {"us_max", row.us_max},
               {"spread", row.spread},
               {"gflops", row.gflops},
               {"percent_of_peak", row.percent_of_peak},
               {"peak_gflops", row.peak_gflops},
               {"gbps", row.gbps},
               {"device", row.device},
               {"probe_simd", row.probe_simd},
               {"samples", row.samples},
               {"runs_per_sample", row.runs_per_sample},
               {"input_sets", row.input_sets},
               {"max_error", row.max_error},
               {"tolerance", row.tolerance}});
  return json;
}

}  // namespace

std::string table_heading() {
  char line[160];
  std::snprintf(line, sizeof(line), "%-22s %-16s %3s %-5s %12s %7s %9s %7s %8s\n", "workload",
                "provider", "thr", "dtype", "median us", "spread", "GFLOP/s", "% peak", "GB/s");
  return line;
}

std::string table_line(const BenchRow& row) {
  char line[256];
  if (!row.right()) {
    std::snprintf(line, sizeof(line), "%-22s %-16s %3d %-5s WRONG: error %.1e, tolerance %.1e\n",
                  row.workload.c_str(), row.provider.c_str(), row.threads,
                  std::string(to_string(row.dtype)).c_str(), row.max_error, row.tolerance);
  } else {
    // One sample has no spread.
    char spread[16] = "-";
    if (row.samples > 1) std::snprintf(spread, sizeof(spread), "%.1f%%", 100 * row.spread);
    std::snprintf(line, sizeof(line), "%-22s %-16s %3d %-5s %12.1f %7s %9.1f %7.1f %8.1f\n",
                  row.workload.c_str(), row.provider.c_str(), row.threads,
                  std::string(to_string(row.dtype)).c_str(), row.us, spread, row.gflops,
                  row.percent_of_peak, row.gbps);
  }
  return line;
}

std::string report_json(const std::string& machine_json, const MeasureSettings& settings,
                        const std::vector<BenchRow>& rows) {
  const Json head = {{"ragged_version", RAGGED_VERSION},
                     {"machine", Json::parse(machine_json)},
                     {"settings",
                      {{"seconds", settings.seconds},
                       {"max_samples", settings.max_samples},
                       {"seed", settings.seed},
                       {"rotate_bytes", settings.rotate_bytes},
                       {"huge_pages", settings.huge_pages}}}};
  // One row a line, so that a change of one is a change of one line.
  std::string text = "{";
  for (const auto& [name, value] : head.items()) {
    text += Json(name).dump() + ": " + value.dump() + ",\n";
  }
  text += "\"rows\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += i == 0 ? "\n  " : ",\n  ";
    text += json_of(rows[i]).dump();
  }
  return text + "\n]}\n";
}

}  // namespace ragged::tools
