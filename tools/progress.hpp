#pragma once

// A line on standard error that says how far a long command is; nothing where that is no terminal.

#include <string>

namespace ragged::tools {

class Progress {
 public:
  explicit Progress(int total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Step `done` of the total begins; `what` names it.
  void show(int done, const std::string& what);
  // Takes the line away, so that other output may follow.
  void clear();

 private:
  int total_;
  bool terminal_;
};

// "[#####---------------] 3/12 W3", at most `width` characters.
std::string progress_line(int done, int total, const std::string& what, std::size_t width);

}  // namespace ragged::tools
