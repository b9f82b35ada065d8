#include "atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <ragged/error.hpp>

namespace ragged::tools {
namespace {

// A temporary file beside the target; removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : target_(target), path_(target + ".XXXXXX") {
    struct stat there = {};
    if (::stat(target_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
      refuse("it is there and no file");
    }
    descriptor_ = ::mkstemp(path_.data());
    if (descriptor_ < 0) fail();
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void rename_to_target() {
    // mkstemp gives 0600; a file that a user asked for gets what the umask leaves of 0666.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor_, static_cast<mode_t>(0666) & ~mask) != 0) fail();
    if (::fsync(descriptor_) != 0) fail();
    if (std::rename(path_.c_str(), target_.c_str()) != 0) fail();
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail() { refuse(std::strerror(errno)); }

  // A constructor that throws runs no destructor; there nothing was made.
  [[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorCode::invalid_argument,
                target_ + ": expected a path that can be written: " + reason);
  }

  std::string target_;
  std::string path_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_to_target();
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

void expect_writable(const std::string& path) {
  const TemporaryFile file(path);  // made, and removed again
}

}  // namespace ragged::tools
