#pragma once

#include <gtest/gtest.h>

#include <string>

#include <ragged/error.hpp>

namespace ragged::test {

// The text of the ragged::Error that `action` throws with `code`; a failure unless it throws one.
template <typename Action>
std::string refusal(ErrorCode code, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

}  // namespace ragged::test
