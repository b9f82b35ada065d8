// A plan in words, for people.

#include <array>
#include <charconv>

#include "backends/contract.hpp"
#include "work_list.hpp"

namespace ragged {
namespace {

// "1 tile", "3 tiles".
std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string fixed(double value, int digits) {
  std::array<char, 512> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits)
          .ptr;
  return {text.data(), end};
}

// Three significant digits with the prefix that suits: scaled(1.2e9, 1000, ...) is "1.20 G".
std::string scaled(double value, double step, const std::array<std::string_view, 6>& prefixes) {
  std::size_t n = 0;
  while (value >= step && n + 1 < prefixes.size()) {
    value /= step;
    ++n;
  }
  const int digits = n == 0 || value >= 100 ? 0 : (value >= 10 ? 1 : 2);
  return fixed(value, digits) + " " + std::string(prefixes[n]);
}

std::string in_bytes(double bytes) {
  return scaled(bytes, 1024.0, {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

// Shortest text that reads back as the same number.
std::string number(double value) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

double percent_in_vain(double useful, double computed) {
  return computed > 0 ? 100.0 * (1.0 - useful / computed) : 0.0;
}

std::string line(std::string_view name, const std::string& text) {
  std::string out(name);
  out.resize(11, ' ');
  return out + text + "\n";
}

std::string describe(const Problem& p) {
  std::string text(to_string(p.kind));
  if (p.causal) text += ", causal";
  if (p.kind == AttentionKind::block_causal) text += ", block_size " + std::to_string(p.block_size);
  if (p.two_sources) text += ", two sources";
  text += "; " + counted(p.num_qo_heads, "query head") + " on " +
          counted(p.num_kv_heads, "key head") + ", head_dim " + std::to_string(p.head_dim) + ", " +
          std::string(to_string(p.dtype)) + ", sm_scale " + number(p.sm_scale);
  return text;
}

std::string describe(const StepLayouts& layouts) {
  std::string text = counted(layouts.q.num_segments(), "segment") + ", " +
                     counted(layouts.q.total_tokens(), "token") + " (longest " +
                     std::to_string(layouts.q.max_length()) + ")";
  if (layouts.q.has_gaps()) {
    text += " in " + counted(layouts.q.extent(), "row");
  }
  if (!layouts.kv_is_q || layouts.prefix.num_segments() > 0) {
    text += ", " + counted(total_kv_tokens(layouts), "key");
  }
  if (layouts.prefix.num_segments() > 0) {
    text += " of which " + std::to_string(layouts.prefix.total_tokens()) + " in prefixes";
  }
  return text;
}

std::string describe(const TileRule& rule, const std::string& kernel, bool last) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const Tile& tile = rule.tile;
  std::string text = counted(tile.q_rows, "query row") + " x " + counted(tile.kv_rows, "key") +
                     ", units of " + counted(tile.unit_rows, "row") + ", " +
                     counted(tile.heads, "head") + " at once, " + kernel;
  if (tile.row_step != 0 || tile.key_step != 0) {
    text += ", cut to " + counted(tile.row_step != 0 ? tile.row_step : tile.q_rows, "row") + " x " +
            counted(tile.key_step != 0 ? tile.key_step : tile.kv_rows, "key") + " at the ends";
  }
  if (tile.split_keys != 0) text += ", keys split by " + std::to_string(tile.split_keys);
  if (last) return text;
  text += ", for segments of at most ";
  if (rule.max_q_length != kAny) text += counted(rule.max_q_length, "row");
  if (rule.max_q_length != kAny && rule.max_kv_length != kAny) text += " and ";
  if (rule.max_kv_length != kAny) text += counted(rule.max_kv_length, "key");
  return text;
}

}  // namespace

std::string Plan::explain() const {
  if (backend == nullptr) return "no plan yet\n";
  std::string text = line("attention", describe(problem));
  text += line("layout", describe(layouts));
  if (ceilings) {
    std::string most = counted(ceilings->max_num_segments, "segment") + ", " +
                       counted(ceilings->max_total_tokens, "token");
    if (ceilings->max_total_kv_tokens > 0) {
      most += ", " + counted(ceilings->max_total_kv_tokens, "key");
    }
    text += line("ceilings", most + "; every choice is made on these");
  }
  text += line("device",
               device.to_string() + (device.present ? "" : " (not the machine that this runs on)"));
  text += line("backend", backend_name + ": " + choice_reason);
  for (int i = 0; i < tiles.num_rules; ++i) {
    const TileRule& rule = tiles.rules[i];
    text += line(i == 0 ? "tiles" : "",
                 describe(rule, backend->kernel_of(rule.tile), i + 1 == tiles.num_rules));
  }
  text += line("work",
               counted(num_units, "unit") + " x " + counted(items_per_unit, "head group") + " = " +
                   counted(num_items(), "item") + "; " +
                   scaled(flops(), 1000.0, {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"}) +
                   ", " + in_bytes(bytes()) + " of q, k, v and out");
  const Waste vain = waste();
  text += line("waste", fixed(percent_in_vain(static_cast<double>(vain.rows_useful),
                                              static_cast<double>(vain.rows_computed)),
                              1) +
                            "% of the rows and " +
                            fixed(percent_in_vain(vain.scores_useful, vain.scores_computed), 1) +
                            "% of the scores that the tiles compute");
  text += line("workspace", in_bytes(static_cast<double>(workspace_bytes)));
  for (const Declined& other : declined) {
    text += line(&other == declined.data() ? "others" : "", other.backend + ": " + other.reason);
  }
  return text;
}

}  // namespace ragged
