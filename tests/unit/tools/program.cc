#include "program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace ragged::tools {
namespace {

std::string rest_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

}  // namespace

Finished run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {RAGGED_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const File out(std::tmpfile(), &std::fclose);
  const File err(std::tmpfile(), &std::fclose);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(out.get()), STDOUT_FILENO);
    ::dup2(::fileno(err.get()), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, rest_of(out.get()), rest_of(err.get())};
}

}  // namespace ragged::tools
