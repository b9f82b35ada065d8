#include "options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include <ragged/error.hpp>

namespace ragged::tools {
namespace {

// More segments than any step has; keeps a repeat from filling the memory.
constexpr std::int64_t kMaxSegments = std::int64_t{1} << 24;
// A span that still leaves room for products with heads and head_dim in 64 bits.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;

[[noreturn]] void refuse(std::string_view option, const std::string& expected,
                         std::string_view came) {
  throw Error(ErrorCode::invalid_argument, std::string(option) + ": expected " + expected +
                                               ", got '" + std::string(came.substr(0, 60)) + "'");
}

bool read_integer(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t min,
                           std::int64_t max) {
  std::int64_t value = 0;
  if (!read_integer(text, value) || value < min || value > max) {
    const bool open = max == std::numeric_limits<std::int64_t>::max();
    refuse(option,
           open ? "an integer of at least " + std::to_string(min)
                : "an integer in [" + std::to_string(min) + ", " + std::to_string(max) + "]",
           text);
  }
  return value;
}

double parse_number(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    refuse(option, "a finite number", text);
  }
  return value;
}

DType read_dtype(std::string_view option, std::string_view text) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    if (text == to_string(dtype)) return dtype;
  }
  refuse(option, "bf16, fp16 or fp32", text);
}

RaggedAttnBackend read_backend(std::string_view option, std::string_view text) {
  for (const RaggedAttnBackend backend :
       {RaggedAttnBackend::AUTO, RaggedAttnBackend::REFERENCE, RaggedAttnBackend::CPU,
        RaggedAttnBackend::SM80, RaggedAttnBackend::SM90, RaggedAttnBackend::FLASHINFER,
        RaggedAttnBackend::CUDNN}) {
    if (text == to_string(backend)) return backend;
  }
  refuse(option, "auto, reference, cpu, sm80, sm90, flashinfer or cudnn", text);
}

std::vector<std::string> split_list(std::string_view option, std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) refuse(option, "a list such as 1,2", text);
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::int64_t> parse_lengths(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> lengths;
  if (text.empty()) return lengths;
  for (const std::string& part : split_list(option, text)) {
    const std::size_t cross = part.find('x');
    std::int64_t count = 1;
    std::int64_t tokens = 0;
    const bool is_count =
        cross == std::string::npos || read_integer(std::string_view(part).substr(0, cross), count);
    const bool is_tokens = read_integer(
        std::string_view(part).substr(cross == std::string::npos ? 0 : cross + 1), tokens);
    if (!is_count || !is_tokens || count < 0 || tokens < 0 || tokens > kMaxTokens) {
      refuse(option, "token counts such as 3,17,512 or 81x64", part);
    }
    if (count > kMaxSegments - static_cast<std::int64_t>(lengths.size())) {
      refuse(option, "at most " + std::to_string(kMaxSegments) + " segments", part);
    }
    lengths.insert(lengths.end(), static_cast<std::size_t>(count), tokens);
  }
  return lengths;
}

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& help) {
  return program.add_subcommand(name, help);
}

void add_value(CLI::App& app, const std::string& group, const std::string& name,
               const std::string& type, const std::string& help,
               const std::function<void(const std::string&)>& take) {
  CLI::Option* option = app.add_option_function<std::string>(name, take, help);
  option->type_name(type);
  if (!group.empty()) option->group(group);
}

void add_flag(CLI::App& app, const std::string& group, const std::string& name,
              const std::string& help, bool& flag) {
  CLI::Option* option = app.add_flag(name, flag, help);
  if (!group.empty()) option->group(group);
}

}  // namespace ragged::tools
