#pragma once

// Rows of a GPU's benchmark as a table and as JSON.

#include <string>
#include <vector>

#include "measure_gpu.hpp"

namespace ragged::tools {

// The heading of the table, and one line for each row; all lines have the same columns.
std::string gpu_table_heading();
std::string gpu_table_line(const GpuRow& row);

// {"ragged_version", "machine": {"gpu", ...}, "settings": {...}, "rows": [...]}, one row a line.
std::string gpu_report_json(const bench::GpuEnvironment& environment, const GpuSettings& settings,
                            const std::vector<GpuRow>& rows);

}  // namespace ragged::tools
