// main() of every program here: registers, for every target, what TARGET_TEST collected and the
// tests that are made from data.

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "backends/target.hpp"
#include "backends/target_tests.hpp"

namespace ragged::test {
namespace {

struct Entry {
  const char* suite;
  const char* name;
  TargetTest body;
  const char* file;
  int line;
};

std::vector<Entry>& entries() {
  static std::vector<Entry> list;
  return list;
}

using Generator = void (*)(const Target&);

std::vector<Generator>& generators() {
  static std::vector<Generator> list;
  return list;
}

class Body : public ::testing::Test {
 public:
  explicit Body(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override {
    try {
      body_();
    } catch (const Error& error) {
      ADD_FAILURE() << "unexpected " << to_string(error.code()) << ": " << error.what();
    }
  }

 private:
  std::function<void()> body_;
};

}  // namespace

bool add_target_test(const char* suite, const char* name, TargetTest body, const char* file,
                     int line) {
  entries().push_back({suite, name, body, file, line});
  return true;
}

bool add_generated_tests(Generator make) {
  generators().push_back(make);
  return true;
}

void register_test(const Target& target, const std::string& suite, const std::string& name,
                   const char* file, int line, std::function<void()> body) {
  register_test(target.name, suite, name, file, line, [&target, body = std::move(body)] {
    try {
      body();
    } catch (const Error& error) {
      if (!target.may_decline || error.code() != ErrorCode::unsupported) throw;
      GTEST_SKIP() << error.what();
    }
  });
}

void register_test(const std::string& target, const std::string& suite, const std::string& name,
                   const char* file, int line, std::function<void()> body) {
  ::testing::RegisterTest((target + "/" + suite).c_str(), name.c_str(), nullptr, nullptr, file,
                          line, [body = std::move(body)]() -> ::testing::Test* {
                            return new Body(body);  // GoogleTest owns it
                          });
}

}  // namespace ragged::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (const auto& absent : ragged::test::absent_targets()) {
    ragged::test::register_test(absent.name, "machine", "present", __FILE__, __LINE__,
                                [&absent] { GTEST_SKIP() << absent.reason; });
  }
  // All tests of a suite must be registered together.
  for (const auto& target : ragged::test::targets()) {
    for (const auto& entry : ragged::test::entries()) {
      ragged::test::register_test(target, entry.suite, entry.name, entry.file, entry.line,
                                  [&target, body = entry.body] { body(target); });
    }
    for (const auto make : ragged::test::generators()) make(target);
  }
  const int failed = RUN_ALL_TESTS();
  const auto& all = *::testing::UnitTest::GetInstance();
  if (all.total_test_count() > 0 && all.test_to_run_count() == 0) {
    std::cerr << "the filter matches no test\n";
    return 1;
  }
  return failed;
}
