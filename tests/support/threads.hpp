#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <thread>
#include <utility>

namespace ragged::test {

// A thread of a test: what it throws is a failure, not the end of the program.
template <typename Body>
std::thread test_thread(Body body) {
  return std::thread([body = std::move(body)]() mutable {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "thrown on a thread of its own: " << error.what();
    }
  });
}

}  // namespace ragged::test
