#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace ragged::tools {

std::string progress_line(int done, int total, const std::string& what, std::size_t width) {
  constexpr int kCells = 20;
  const int full = total > 0 ? std::clamp(done * kCells / total, 0, kCells) : kCells;
  std::string line(1, '[');
  line.append(static_cast<std::size_t>(full), '#');
  line.append(static_cast<std::size_t>(kCells - full), '-');
  line += "] ";
  line += std::to_string(done);
  line += '/';
  line += std::to_string(total);
  line += ' ';
  line += what;
  return line.substr(0, width);
}

Progress::Progress(int total) : total_(total), terminal_(::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear(); }

void Progress::show(int done, const std::string& what) {
  if (!terminal_) return;
  winsize size = {};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const std::size_t width = known ? size.ws_col - 1U : 79U;
  std::cerr << "\r\x1b[K" << progress_line(done, total_, what, width) << std::flush;
}

void Progress::clear() {
  if (terminal_) std::cerr << "\r\x1b[K" << std::flush;
}

}  // namespace ragged::tools
