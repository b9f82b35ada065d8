#pragma once

// Rows of a benchmark as a table for people and as JSON for plots.

#include <string>
#include <vector>

#include "measure.hpp"

namespace ragged::tools {

// The heading of the table, and one line for each row; all lines have the same columns.
std::string table_heading();
std::string table_line(const BenchRow& row);

// {"ragged_version", "machine": {...}, "settings": {...}, "rows": [...]}. `machine_json` is
// Machine::to_json_with_probes().
std::string report_json(const std::string& machine_json, const MeasureSettings& settings,
                        const std::vector<BenchRow>& rows);

}  // namespace ragged::tools
