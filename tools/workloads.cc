#include "workloads.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "workloads_data.hpp"

namespace ragged::tools {
namespace {

using Json = nlohmann::json;

// More segments than any step has; keeps a run-length list from filling the memory.
constexpr std::int64_t kMaxSegments = std::int64_t{1} << 24;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

// One entry of the list, with errors that name it.
class Entry {
 public:
  Entry(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) refuse(where_ + ": expected an object");
    where_ += " '" + text("name") + "'";
  }

  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = field(key);
    if (!value.is_string()) expected(key, "a string", value);
    return value.get<std::string>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    const Json& value = field(key);
    if (!value.is_boolean()) expected(key, "true or false", value);
    return value.get<bool>();
  }
  [[nodiscard]] int count(const char* key) const {
    const Json& value = field(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1'000'000) {
      expected(key, "a count up to 1000000", value);
    }
    return value.get<int>();
  }
  // A number of tokens, or 0 for null.
  [[nodiscard]] std::int64_t tokens_or_zero(const char* key) const {
    const Json& value = field(key);
    if (value.is_null()) return 0;
    if (!is_tokens(value)) expected(key, "tokens or null", value);
    return value.get<std::int64_t>();
  }
  // A run-length list of [count, tokens], expanded; empty for null.
  [[nodiscard]] std::vector<std::int64_t> lengths(const char* key) const {
    const Json& value = field(key);
    std::vector<std::int64_t> result;
    if (value.is_null()) return result;
    if (!value.is_array()) expected(key, "a list of [count, tokens]", value);
    for (const Json& run : value) {
      if (!run.is_array() || run.size() != 2 || !is_tokens(run[0]) || !is_tokens(run[1])) {
        expected(key, "a list of [count, tokens]", run);
      }
      const auto count = run[0].get<std::int64_t>();
      if (count > kMaxSegments - static_cast<std::int64_t>(result.size())) {
        expected(key, "at most " + std::to_string(kMaxSegments) + " segments", run);
      }
      result.insert(result.end(), static_cast<std::size_t>(count), run[1].get<std::int64_t>());
    }
    return result;
  }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }

 private:
  static bool is_tokens(const Json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() < (std::uint64_t{1} << 40);
  }
  [[nodiscard]] const Json& field(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) refuse(where_ + ": '" + key + "' is missing");
    return *it;
  }
  [[noreturn]] void expected(const char* key, const std::string& what, const Json& came) const {
    refuse(where_ + ": " + key + ": expected " + what + ", got " +
           came.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40));
  }

  const Json& json_;
  std::string where_;
};

Workload read(const Entry& entry) {
  Workload w;
  w.name = entry.text("name");
  w.problem.kind = parse_kind(entry.text("kind"));
  w.problem.num_qo_heads = entry.count("num_qo_heads");
  w.problem.num_kv_heads = entry.count("num_kv_heads");
  w.problem.head_dim = entry.count("head_dim");
  w.problem.dtype = parse_dtype(entry.text("dtype"));
  w.problem.causal = entry.flag("causal");
  w.problem.block_size = entry.tokens_or_zero("block_size");
  w.problem.sm_scale = 1.0 / std::sqrt(static_cast<double>(std::max(w.problem.head_dim, 1)));
  w.q_lengths = entry.lengths("q_segments");
  w.layers = entry.count("layers");
  w.model = entry.text("model");

  std::vector<std::int64_t> keys = entry.lengths("kv_segments");
  const bool has_keys =
      w.problem.kind == AttentionKind::cross || w.problem.kind == AttentionKind::prefixed;
  if (keys.size() != (has_keys ? w.q_lengths.size() : 0)) {
    refuse(entry.where() + ": kv_segments: expected " +
           std::to_string(has_keys ? w.q_lengths.size() : 0) + " segments, got " +
           std::to_string(keys.size()));
  }
  (w.problem.kind == AttentionKind::cross ? w.kv_lengths : w.prefix_lengths) = std::move(keys);
  try {
    w.problem.validate();
  } catch (const Error& error) {
    refuse(entry.where() + ": " + error.what());
  }
  return w;
}

const Json& parsed(std::string_view json, const std::string& origin, Json& storage) {
  storage = Json::parse(json, nullptr, false);
  if (storage.is_discarded()) refuse(origin + ": expected JSON");
  return storage;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::vector<Workload> parse_workloads(std::string_view json, const std::string& origin) {
  Json storage;
  const Json& list = parsed(json, origin, storage);
  if (!list.is_array()) refuse(origin + ": expected a list of workloads");
  std::vector<Workload> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    result.push_back(read(Entry(list[i], origin + "[" + std::to_string(i) + "]")));
  }
  return result;
}

const std::vector<Workload>& suite(std::string_view name) {
  static const std::vector<Workload> cpu = parse_workloads(data::kCpuJson, "cpu.json");
  static const std::vector<Workload> models = parse_workloads(data::kModelsJson, "models.json");
  if (name == "cpu") return cpu;
  if (name == "models") return models;
  refuse("--suite: expected cpu or models, got '" + std::string(name) + "'");
}

const Workload& find_workload(std::string_view name) {
  // Names that begin with this text, or could be it mistyped.
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const char* suite_name : {"cpu", "models"}) {
    for (const Workload& workload : suite(suite_name)) {
      if (workload.name == name) return workload;
      const bool begins = !name.empty() && workload.name.starts_with(name);
      const std::size_t distance = begins ? 0 : edit_distance(name, workload.name);
      if (2 * distance <= name.size()) near.emplace_back(distance, workload.name);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string nearest;
  for (std::size_t i = 0; i < std::min<std::size_t>(near.size(), 3); ++i) {
    nearest += (i == 0 ? "; nearest: " : ", ") + std::string(near[i].second);
  }
  refuse("--workload: expected a name of 'ragged bench --list', got '" + std::string(name) + "'" +
         nearest);
}

std::optional<H200Goal> h200_goal(std::string_view workload) {
  static const Json goals = [] {
    Json storage;
    return parsed(data::kH200GoalsJson, "h200-goals.json", storage);
  }();
  const auto it = goals.find(std::string(workload));
  if (it == goals.end()) return std::nullopt;
  return H200Goal{it->at("floor_us").get<double>(), it->at("best_peer_us").get<double>(),
                  it->at("goal_us").get<double>(), it->at("best_peer").get<std::string>()};
}

}  // namespace ragged::tools
