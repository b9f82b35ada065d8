#pragma once

// Files that appear whole or not at all.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ragged::tools {

// Writes a temporary file beside `path`, then renames it over `path`, where a file may be but no
// folder and no device. On failure nothing is left
// behind, what was at `path` stays, and ragged::Error(invalid_argument) names the path and the
// system's reason.
void write_file(const std::string& path, std::span<const std::byte> bytes);
void write_file(const std::string& path, std::string_view text);

// Throws what write_file(path) would throw for a path that cannot be written; changes nothing. To
// refuse it before the work, not after.
void expect_writable(const std::string& path);

}  // namespace ragged::tools
