#include "backends/cudnn/library.hpp"

#include <dlfcn.h>

namespace ragged::cudnn {
namespace {

std::string dotted(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

std::string declines_version(std::size_t version) {
  if (version >= kLeastVersion) return {};
  return "cuDNN must be " + dotted(kLeastVersion) + " or newer; " + kLibraryName + " is " +
         dotted(version);
}

Library load_library(const char* name) {
  Library found;
  // Global: cuDNN opens the rest of itself by name.
  found.handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (found.handle == nullptr) {
    const char* const why = dlerror();
    found.absence = std::string(name) + " is not found: " + (why != nullptr ? why : "no reason");
    return found;
  }
  using GetVersion = std::size_t (*)();
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(found.handle, "cudnnGetVersion"));
  if (get_version == nullptr) {
    found.absence = std::string(name) + " is not cuDNN: it has no cudnnGetVersion";
    return found;
  }
  found.version = get_version();
  found.absence = declines_version(found.version);
  return found;
}

const Library& library() {
  // Never destroyed: graphs of wrappers with static lifetime run through it.
  static const Library& the_library = *new Library(load_library(kLibraryName));
  return the_library;
}

}  // namespace ragged::cudnn
