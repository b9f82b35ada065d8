#include "draw.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "execution.hpp"
#include "svg.hpp"

namespace ragged::tools {
namespace {

constexpr double kLeft = 150;
constexpr double kTop = 104;
constexpr double kMostWidth = 820;
constexpr double kMostHeight = 640;
constexpr double kMostTokenPixels = 16;  // small layouts stay small
constexpr double kGap = 4;               // between fields
constexpr double kLeastTilePixels = 3;   // finer grids are a grey blur

constexpr std::string_view kDefinitions =
    "<pattern id='waste' width='6' height='6' patternUnits='userSpaceOnUse' "
    "patternTransform='rotate(45)'><rect width='6' height='6' fill='#fdebd8'/>"
    "<rect width='2' height='6' fill='#e8862e'/></pattern>";
constexpr std::string_view kOutside = "fill='#f3f3f0'";
constexpr std::string_view kNotComputed = "fill='#fff' stroke='#9a9a94' stroke-width='1'";
constexpr std::string_view kWaste = "fill='url(#waste)'";
constexpr std::string_view kVisible = "fill='#3d78b4'";
constexpr std::string_view kPrefix = "fill='#7fb0d9'";
constexpr std::string_view kTile = "stroke='#12304d' stroke-opacity='0.45' stroke-width='0.6'";
constexpr std::string_view kUnit = "stroke='#12304d' stroke-width='1.6'";
constexpr std::string_view kEdge = "fill='none' stroke='#12304d' stroke-width='1.2'";
constexpr std::string_view kSoft = "fill='#777'";

// Where a segment's field lies, and pixels per token.
struct Field {
  const SegmentPicture* picture;
  double x;
  double y;
  double key_pixels;
  double row_pixels;
  [[nodiscard]] double at_key(std::int64_t key) const {
    return x + static_cast<double>(key) * key_pixels;
  }
  [[nodiscard]] double at_row(std::int64_t row) const {
    return y + static_cast<double>(row) * row_pixels;
  }
};

struct Scale {
  double key_pixels;
  double row_pixels;
};

Scale scale_of(const Case& c, const std::vector<SegmentPicture>& pictures) {
  double rows = 0;
  double keys = 0;
  for (const SegmentPicture& picture : pictures) {
    rows += static_cast<double>(picture.rows());
    keys += static_cast<double>(picture.keys());
  }
  const double gaps = kGap * static_cast<double>(pictures.size());
  Scale scale = {std::min(kMostTokenPixels, (kMostWidth - gaps) / std::max(keys, 1.0)),
                 std::min(kMostTokenPixels, (kMostHeight - gaps) / std::max(rows, 1.0))};
  const bool square =
      c.problem.kind == AttentionKind::self || c.problem.kind == AttentionKind::block_causal;
  if (square) scale.key_pixels = scale.row_pixels = std::min(scale.key_pixels, scale.row_pixels);
  return scale;
}

// The area left of `width(row)` for rows [0, count), as steps; steps finer than a third of a pixel
// run together.
template <typename Width>
std::vector<Point> staircase(const Field& field, std::int64_t first_key, std::int64_t count,
                             Width width) {
  std::vector<Point> points = {{field.at_key(first_key), field.at_row(0)}};
  double drawn_x = -1;
  double drawn_y = -1;
  for (std::int64_t row = 0; row < count; ++row) {
    const double x = field.at_key(std::max(width(row), first_key));
    const double y = field.at_row(row);
    const bool last = row + 1 == count;
    if (!last && (x == drawn_x || (drawn_y >= 0 && y - drawn_y < 0.33))) continue;
    if (drawn_x >= 0) points.push_back({drawn_x, y});
    points.push_back({x, y});
    drawn_x = x;
    drawn_y = y;
  }
  if (count > 0) points.push_back({drawn_x, field.at_row(count)});
  points.push_back({field.at_key(first_key), field.at_row(count)});
  return points;
}

void draw_visible(Svg& svg, const Field& field) {
  const SegmentPicture& p = *field.picture;
  const auto end = [&](std::int64_t row) { return p.visible_end[static_cast<std::size_t>(row)]; };
  if (p.prefix_length == 0) {
    svg.polygon(staircase(field, 0, p.q_length, end), kVisible);
    return;
  }
  svg.polygon(staircase(field, 0, p.q_length,
                        [&](std::int64_t row) { return std::min(end(row), p.prefix_length); }),
              kPrefix);
  svg.polygon(staircase(field, p.prefix_length, p.q_length, end), kVisible);
}

// Outlines of the tiles; unit boundaries are heavier.
void draw_tiles(Svg& svg, const Field& field) {
  for (const SegmentPicture::Panel& panel : field.picture->panels) {
    const double top = field.at_row(panel.row);
    const double bottom = field.at_row(panel.row + panel.rows);
    const double right = field.at_key(panel.keys);
    if (panel.begins_unit && panel.row > 0) {
      svg.line({field.x, top}, {field.at_key(field.picture->keys()), top}, kUnit);
    }
    if (bottom - top < kLeastTilePixels) continue;
    svg.line({field.x, bottom}, {right, bottom}, kTile);
    if (field.key_pixels * static_cast<double>(panel.key_step) < kLeastTilePixels) continue;
    for (std::int64_t key = panel.key_step; key <= panel.keys; key += panel.key_step) {
      svg.line({field.at_key(key), top}, {field.at_key(key), bottom}, kTile);
    }
  }
}

void draw_field(Svg& svg, const Field& field) {
  const SegmentPicture& p = *field.picture;
  const double width = static_cast<double>(p.kv_length) * field.key_pixels;
  const double height = static_cast<double>(p.q_length) * field.row_pixels;
  svg.rectangle(field.x, field.y, width, height, kNotComputed);
  for (std::size_t i = 0; i < p.panels.size();) {
    // Panels of the same width are one rectangle: the hatching runs through.
    std::size_t next = i + 1;
    while (next < p.panels.size() && p.panels[next].keys == p.panels[i].keys) ++next;
    const auto& last = p.panels[next - 1];
    svg.rectangle(field.x, field.at_row(p.panels[i].row), field.at_key(p.panels[i].keys) - field.x,
                  field.at_row(last.row + last.rows) - field.at_row(p.panels[i].row), kWaste);
    i = next;
  }
  if (p.q_length > 0) draw_visible(svg, field);
  draw_tiles(svg, field);
  svg.rectangle(field.x, field.y, width, height, kEdge);
}

std::string counted(std::int64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void label_field(Svg& svg, const Field& field, double top) {
  const SegmentPicture& p = *field.picture;
  const double height = static_cast<double>(p.rows()) * field.row_pixels;
  const double width = static_cast<double>(p.keys()) * field.key_pixels;
  if (height >= 9) {
    const double middle = field.y + static_cast<double>(p.q_length) * field.row_pixels / 2 + 4;
    svg.text({kLeft - 10, middle}, "end", 11,
             "segment " + std::to_string(p.segment) + ": " + counted(p.q_length, "token"));
  }
  std::string keys = std::to_string(p.kv_length);
  if (p.prefix_length > 0) {
    keys = std::to_string(p.prefix_length) + " + " + std::to_string(p.kv_length - p.prefix_length);
  }
  if (width > 90) keys += p.kv_length == 1 ? " key" : " keys";
  if (width >= 7.0 * static_cast<double>(keys.size())) {
    svg.text({field.x + static_cast<double>(p.kv_length) * field.key_pixels / 2, top - 8}, "middle",
             11, keys);
  }
}

double legend(Svg& svg, const Case& c, double y) {
  double x = 24;
  const auto entry = [&](std::string_view style, std::string_view words) {
    svg.rectangle(x, y - 11, 14, 14, style);
    svg.text({x + 20, y}, "start", 12, words);
    // 7 pixels hold a letter of the widest of the fonts.
    x += 36 + 7 * static_cast<double>(words.size());
  };
  entry(kVisible, "a query sees the key");
  if (c.problem.kind == AttentionKind::prefixed && !c.prefix_lengths.empty()) {
    entry(kPrefix, "key of the prefix");
  }
  entry(kWaste, "in a tile, in vain");
  entry(kNotComputed, "masked: never loaded");
  entry(kOutside, "another segment");
  svg.line({x, y - 4}, {x + 16, y - 4}, kUnit);
  svg.text({x + 22, y}, "start", 12, "edge of a work unit");
  return y;
}

std::string percent(double useful, double computed) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%",
                computed > 0 ? 100.0 * (1.0 - useful / computed) : 0.0);
  return text;
}

}  // namespace

std::string draw(const Case& c, const Plan& plan, std::int64_t most_segments) {
  const std::vector<SegmentPicture> pictures = picture_segments(c, plan, most_segments);
  const Scale scale = scale_of(c, pictures);
  std::vector<Field> fields;
  double x = kLeft;
  double y = kTop;
  for (const SegmentPicture& picture : pictures) {
    fields.push_back({&picture, x, y, scale.key_pixels, scale.row_pixels});
    x += static_cast<double>(picture.keys()) * scale.key_pixels + kGap;
    y += static_cast<double>(picture.rows()) * scale.row_pixels + kGap;
  }
  const double right = pictures.empty() ? kLeft : x - kGap;
  const double bottom = pictures.empty() ? kTop : y - kGap;

  Svg svg;
  svg.text({24, 30}, "start", 17, c.name + ": " + c.describe(), "fill='#111' font-weight='bold'");
  const Waste waste = plan.waste();
  svg.text({24, 50}, "start", 12,
           plan.backend_name + " on " + plan.device.to_string() + ", " + tiles_text(plan) + "; " +
               percent(waste.scores_useful, waste.scores_computed) +
               " of the scores that the tiles compute are in vain",
           kSoft);
  const std::int64_t left_out = plan.layouts.q.num_segments() - std::ssize(pictures);
  svg.text({kLeft, 76}, "start", 12,
           std::string("keys of each segment") +
               (left_out > 0 ? " (the first " + std::to_string(pictures.size()) + " of " +
                                   std::to_string(plan.layouts.q.num_segments()) + ")"
                             : ""),
           kSoft);
  svg.text({24, kTop - 8}, "start", 12, "queries", kSoft);

  svg.rectangle(kLeft, kTop, right - kLeft, bottom - kTop, kOutside);
  for (const Field& field : fields) draw_field(svg, field);
  for (const Field& field : fields) label_field(svg, field, kTop);
  const double end = legend(svg, c, bottom + 36);
  return svg.str(1000, end + 24, kDefinitions);
}

}  // namespace ragged::tools
