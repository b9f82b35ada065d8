#pragma once

#include <gtest/gtest.h>

#include <string>

#include <ragged/error.hpp>

namespace ragged::tools {

// The one line that `action` is refused with.
template <typename Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// True if `text` holds `part`; a failure shows both.
inline ::testing::AssertionResult holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' does not hold '" << part << "'";
}

}  // namespace ragged::tools
