#include "svg.hpp"

#include <cstdio>

namespace ragged::tools {
namespace {

// Two digits after the point are finer than any screen.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

std::string escaped(std::string_view words) {
  std::string text;
  for (const char c : words) {
    switch (c) {
      case '&':
        text += "&amp;";
        break;
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '\'':
        text += "&#39;";
        break;
      default:
        text += c;
    }
  }
  return text;
}

}  // namespace

void Svg::rectangle(double x, double y, double width, double height, std::string_view style) {
  body_ += "<rect x='" + number(x) + "' y='" + number(y) + "' width='" + number(width) +
           "' height='" + number(height) + "' ";
  body_ += style;
  body_ += "/>\n";
}

void Svg::line(Point from, Point to, std::string_view style) {
  body_ += "<line x1='" + number(from.x) + "' y1='" + number(from.y) + "' x2='" + number(to.x) +
           "' y2='" + number(to.y) + "' ";
  body_ += style;
  body_ += "/>\n";
}

void Svg::polygon(const std::vector<Point>& points, std::string_view style) {
  body_ += "<polygon points='";
  for (const Point& point : points) body_ += number(point.x) + "," + number(point.y) + " ";
  body_ += "' ";
  body_ += style;
  body_ += "/>\n";
}

void Svg::text(Point at, std::string_view anchor, double size, std::string_view words,
               std::string_view style) {
  body_ += "<text x='" + number(at.x) + "' y='" + number(at.y) + "' font-size='" + number(size) +
           "' text-anchor='";
  body_ += anchor;
  body_ += "' ";
  body_ += style;
  body_ += '>';
  body_ += escaped(words);
  body_ += "</text>\n";
}

std::string Svg::str(double width, double height, std::string_view definitions) const {
  const std::string size = number(width) + " " + number(height);
  std::string text = "<svg xmlns='http://www.w3.org/2000/svg' width='" + number(width) +
                     "' height='" + number(height) + "' viewBox='0 0 " + size +
                     "' font-family='Helvetica, Arial, sans-serif'>\n<defs>";
  text += definitions;
  text += "</defs>\n<rect width='100%' height='100%' fill='#fff'/>\n" + body_ + "</svg>\n";
  return text;
}

}  // namespace ragged::tools
