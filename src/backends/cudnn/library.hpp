#pragma once

// cuDNN as this process finds it: loaded by name, never linked.

#include <string>

namespace ragged::cudnn {

inline constexpr const char* kLibraryName = "libcudnn.so.9";
// The oldest that is known to answer as the contract asks; as cudnnGetVersion() counts.
inline constexpr std::size_t kLeastVersion = 91400;

struct Library {
  void* handle = nullptr;   // of dlopen; never closed
  std::size_t version = 0;  // 91400 for 9.14.0
  std::string absence;      // why it cannot be used, naming what was looked for; empty if it can
};

// Loads the library of that name; one that the process has loaded already, such as PyTorch's, is
// taken.
Library load_library(const char* name);
// The one that runs use; loaded once.
const Library& library();

// Why a library of this version cannot be used; empty if it can. Pure.
std::string declines_version(std::size_t version);

}  // namespace ragged::cudnn
