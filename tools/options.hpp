#pragma once

// Values of options, each checked where it is read: an error names the option, what was expected
// and what came.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <ragged/declare.hpp>

namespace CLI {
class App;
}

namespace ragged::tools {

// All throw ragged::Error(invalid_argument) naming `option`.
std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t min,
                           std::int64_t max = std::numeric_limits<std::int64_t>::max());
// A finite number.
double parse_number(std::string_view option, std::string_view text);
// Token counts: "3,17,512"; COUNTxTOKENS repeats one, so "81x64,18x16,4" is 100 segments. An empty
// text is no segments.
std::vector<std::int64_t> parse_lengths(std::string_view option, std::string_view text);
// bf16, fp16 or fp32.
DType read_dtype(std::string_view option, std::string_view text);
// A backend of this library, built or not.
RaggedAttnBackend read_backend(std::string_view option, std::string_view text);
// "1,2,4": parts between commas, none of them empty.
std::vector<std::string> split_list(std::string_view option, std::string_view text);

// A subcommand of the program.
CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& help);
// An option that takes one value and hands its text to `take`. `help` ends with an example; an
// empty `group` is the command's own.
void add_value(CLI::App& app, const std::string& group, const std::string& name,
               const std::string& type, const std::string& help,
               const std::function<void(const std::string&)>& take);
// An option without a value; `flag` must outlive the app.
void add_flag(CLI::App& app, const std::string& group, const std::string& name,
              const std::string& help, bool& flag);

}  // namespace ragged::tools
