#include "picture.hpp"

#include "draw.hpp"
#include "program.hpp"

namespace ragged::python {
namespace {

std::vector<std::int64_t> lengths_of(const Layout& layout) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(layout.num_segments()));
  for (std::int64_t i = 0; i < layout.num_segments(); ++i) lengths.push_back(layout.length(i));
  return lengths;
}

}  // namespace

std::string picture_of(const Plan& plan, std::int64_t most_segments) {
  if (most_segments < 1) {
    throw Error(ErrorCode::invalid_argument,
                "segments must be at least 1; got " + std::to_string(most_segments));
  }
  tools::Case c;
  c.problem = plan.problem;
  c.q_lengths = lengths_of(plan.layouts.q);
  if (plan.problem.two_sources) {
    c.prefix_lengths = lengths_of(plan.layouts.prefix);
  } else if (!plan.layouts.kv_is_q) {
    c.kv_lengths = lengths_of(plan.layouts.kv);
  }
  return tools::draw(c, plan, most_segments);
}

int run_command(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"ragged"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  return tools::run_program(static_cast<int>(all.size()), argv.data());
}

}  // namespace ragged::python
