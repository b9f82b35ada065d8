#pragma once

// A scalable picture, built shape by shape.

#include <string>
#include <string_view>
#include <vector>

namespace ragged::tools {

struct Point {
  double x = 0;
  double y = 0;
};

class Svg {
 public:
  // `style` is what of SVG's presentation attributes a shape has: "fill='#fff' stroke='none'".
  void rectangle(double x, double y, double width, double height, std::string_view style);
  void line(Point from, Point to, std::string_view style);
  void polygon(const std::vector<Point>& points, std::string_view style);
  // `anchor` is "start", "middle" or "end"; markup in `words` is escaped.
  void text(Point at, std::string_view anchor, double size, std::string_view words,
            std::string_view style = "fill='#333'");
  // The whole picture of this size in pixels. `definitions` may hold patterns that styles name.
  [[nodiscard]] std::string str(double width, double height, std::string_view definitions) const;

 private:
  std::string body_;
};

}  // namespace ragged::tools
