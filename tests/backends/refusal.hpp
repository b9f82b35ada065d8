#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <ragged/error.hpp>

namespace ragged::test {

// Adds a failure unless `call` throws ragged::Error with this code and every part in its text.
template <typename Call>
void expect_refused(const Call& call, ErrorCode code, const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is missing in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "was not refused";
}

}  // namespace ragged::test
