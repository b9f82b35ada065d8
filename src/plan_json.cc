// A plan as JSON (RFC 8259), with the names of the C++ fields.

#include <array>
#include <charconv>
#include <cstdio>
#include <type_traits>

#include "backends/contract.hpp"
#include "work_list.hpp"

namespace ragged {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// One object, written field by field.
class Object {
 public:
  // `json` is a value already written as JSON.
  Object& raw(std::string_view name, std::string_view json) {
    text_ += text_.size() == 1 ? "" : ", ";
    text_ += quoted(name);
    text_ += ": ";
    text_ += json;
    return *this;
  }
  Object& field(std::string_view name, std::string_view value) { return raw(name, quoted(value)); }
  template <typename Number>
  requires std::is_arithmetic_v<Number> Object& field(std::string_view name, Number value) {
    if constexpr (std::is_same_v<Number, bool>) {
      return raw(name, value ? "true" : "false");
    } else {
      std::array<char, 64> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
      return raw(name, {digits.data(), end});
    }
  }
  // No limit is null.
  Object& limit(std::string_view name, std::int64_t value) {
    if (value == std::numeric_limits<std::int64_t>::max()) return raw(name, "null");
    return field(name, value);
  }
  [[nodiscard]] std::string str() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

template <typename Range, typename Write>
std::string array_of(const Range& range, Write&& write) {
  std::string out = "[";
  for (const auto& entry : range) {
    if (out.size() > 1) out += ", ";
    out += write(entry);
  }
  return out + "]";
}

std::string json(const Problem& p) {
  return Object()
      .field("kind", to_string(p.kind))
      .field("num_qo_heads", p.num_qo_heads)
      .field("num_kv_heads", p.num_kv_heads)
      .field("head_dim", p.head_dim)
      .field("sm_scale", p.sm_scale)
      .field("dtype", to_string(p.dtype))
      .field("causal", p.causal)
      .field("block_size", p.block_size)
      .field("two_sources", p.two_sources)
      .str();
}

std::string json(const Layout& layout) {
  return Object()
      .field("num_segments", layout.num_segments())
      .field("total_tokens", layout.total_tokens())
      .field("extent", layout.extent())
      .field("max_length", layout.max_length())
      .str();
}

std::string json(const Ceilings& c) {
  return Object()
      .field("max_num_segments", c.max_num_segments)
      .field("max_total_tokens", c.max_total_tokens)
      .field("max_total_kv_tokens", c.max_total_kv_tokens)
      .str();
}

std::string json(const TileRule& rule) {
  return Object()
      .limit("max_q_length", rule.max_q_length)
      .limit("max_kv_length", rule.max_kv_length)
      .field("q_rows", rule.tile.q_rows)
      .field("kv_rows", rule.tile.kv_rows)
      .field("unit_rows", rule.tile.unit_rows)
      .field("heads", rule.tile.heads)
      .field("variant", rule.tile.variant)
      .field("split_keys", rule.tile.split_keys)
      .field("row_step", rule.tile.row_step == 0 ? rule.tile.q_rows : rule.tile.row_step)
      .field("key_step", rule.tile.key_step == 0 ? rule.tile.kv_rows : rule.tile.key_step)
      .str();
}

std::string json(const Waste& waste) {
  return Object()
      .field("rows_useful", waste.rows_useful)
      .field("rows_computed", waste.rows_computed)
      .field("scores_useful", waste.scores_useful)
      .field("scores_computed", waste.scores_computed)
      .str();
}

}  // namespace

std::string Plan::to_json(bool with_units) const {
  if (backend == nullptr) return "null";
  Object plan;
  plan.raw("problem", json(problem)).raw("q", json(layouts.q));
  plan.raw("kv", json(layouts.keys()));
  plan.raw("prefix", problem.two_sources ? json(layouts.prefix) : "null");
  plan.field("total_kv_tokens", total_kv_tokens(layouts));
  plan.raw("ceilings", ceilings ? json(*ceilings) : "null");
  plan.field("device", device.to_string()).field("present", device.present);
  plan.field("backend", backend_name).field("choice_reason", choice_reason);
  plan.raw("declined", array_of(declined, [](const Declined& other) {
             return Object().field("backend", other.backend).field("reason", other.reason).str();
           }));
  const std::span rules(tiles.rules, static_cast<std::size_t>(tiles.num_rules));
  plan.raw("tiles", array_of(rules, [](const TileRule& rule) { return json(rule); }));
  plan.field("num_units", num_units).field("items_per_unit", items_per_unit);
  plan.field("num_items", num_items()).field("workspace_bytes", workspace_bytes);
  plan.field("flops", flops()).field("bytes", bytes()).raw("waste", json(waste()));
  if (with_units) {
    plan.raw("units", array_of(work_units(), [](const WorkUnit& unit) {
               return Object()
                   .field("segment", unit.segment)
                   .field("row_begin", unit.row_begin)
                   .field("rows", unit.rows)
                   .field("rule", unit.rule)
                   .str();
             }));
  }
  return plan.str();
}

}  // namespace ragged
