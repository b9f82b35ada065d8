#include "bench_gpu_report.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ragged/version.hpp>

namespace ragged::tools {
namespace {

using Json = nlohmann::ordered_json;

// Today in UTC: "2026-11-30".
std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

Json json_of(const GpuRow& row) {
  Json json = {{"workload", row.workload},
               {"provider", row.provider},
               {"dtype", to_string(row.dtype)},
               {"us", row.us},
               {"us_min", row.us_min},
               {"us_max", row.us_max},
               {"spread", row.spread},
               {"sustained_us", row.sustained_us},
               {"sustained_sm_mhz", row.sustained_sm_mhz},
               {"floor_us", row.floor_us}};
  if (row.goal) {
    json.update({{"goal_us", row.goal->goal_us},
                 {"known_peer", row.goal->best_peer},
                 {"known_peer_us", row.goal->best_peer_us}});
  }
  json.update({{"plan_us", row.plan_us},
               {"replan_us", row.replan_us},
               {"plan_device_us", row.plan_device_us},
               {"host_us", row.host_us},
               {"tflops", row.tflops},
               {"gbps", row.gbps},
               {"workspace_bytes", row.workspace_bytes},
               {"input_sets", row.input_sets},
               {"runs_per_graph", row.runs_per_graph},
               {"relative_error", row.relative_error},
               {"tolerance", row.tolerance},
               {"device", row.device}});
  return json;
}

Json json_of(const bench::GpuEnvironment& e) {
  return {{"gpu", e.name},
          {"driver", e.driver},
          {"cuda_runtime", e.runtime},
          {"sm_count", e.sm_count},
          {"l2_bytes", e.l2_bytes},
          {"memory_bytes", e.memory_bytes},
          {"max_sm_mhz", e.max_sm_mhz},
          {"max_memory_mhz", e.max_memory_mhz},
          {"power_limit_watts", e.power_limit_watts},
          {"date", today()}};
}

}  // namespace

std::string gpu_table_heading() {
  char line[200];
  std::snprintf(line, sizeof(line), "%-22s %-14s %-5s %9s %9s %8s %7s %8s %8s %7s %7s %8s\n",
                "workload", "provider", "dtype", "us", "sustained", "floor us", "% floor",
                "goal us", "peer us", "plan us", "host us", "error");
  return line;
}

std::string gpu_table_line(const GpuRow& row) {
  char line[256];
  const std::string dtype(to_string(row.dtype));
  if (!row.right()) {
    std::snprintf(line, sizeof(line), "%-22s %-14s %-5s WRONG: relative error %.1e, at most %.1e\n",
                  row.workload.c_str(), row.provider.c_str(), dtype.c_str(), row.relative_error,
                  row.tolerance);
    return line;
  }
  char goal[16] = "-";
  char peer[16] = "-";
  if (row.goal) {
    std::snprintf(goal, sizeof(goal), "%.1f", row.goal->goal_us);
    std::snprintf(peer, sizeof(peer), "%.1f", row.goal->best_peer_us);
  }
  std::snprintf(line, sizeof(line),
                "%-22s %-14s %-5s %9.1f %9.1f %8.1f %7.0f %8s %8s %7.1f %7.1f %8.1e\n",
                row.workload.c_str(), row.provider.c_str(), dtype.c_str(), row.us, row.sustained_us,
                row.floor_us, 100.0 * row.floor_us / row.us, goal, peer, row.plan_us, row.host_us,
                row.relative_error);
  return line;
}

std::string gpu_report_json(const bench::GpuEnvironment& environment, const GpuSettings& settings,
                            const std::vector<GpuRow>& rows) {
  const Json head = {{"ragged_version", RAGGED_VERSION},
                     {"machine", json_of(environment)},
                     {"settings",
                      {{"idle_seconds", settings.idle_seconds},
                       {"bursts", settings.bursts},
                       {"sustained_seconds", settings.sustained_seconds},
                       {"rotate_bytes", settings.rotate_bytes},
                       {"least_graph_us", settings.least_graph_us},
                       {"seed", settings.seed}}}};
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
