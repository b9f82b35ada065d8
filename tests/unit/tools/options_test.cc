#include "options.hpp"

#include "refusal.hpp"

namespace ragged::tools {
namespace {

using Lengths = std::vector<std::int64_t>;

TEST(ParseLengths, TakesCountsAndRepeats) {
  EXPECT_EQ(parse_lengths("--lengths", "3,17,512"), (Lengths{3, 17, 512}));
  EXPECT_EQ(parse_lengths("--lengths", "2x64,0,1x4"), (Lengths{64, 64, 0, 4}));
  EXPECT_EQ(parse_lengths("--lengths", "0x9"), Lengths{});
  EXPECT_EQ(parse_lengths("--lengths", ""), Lengths{});
}

TEST(ParseLengths, NamesTheOptionAndThePart) {
  for (const char* text : {"3,x", "3,,4", "3,", ",", "-1", "2x-1", "1.5", "x5", "5x", "1x2x3",
                           "99999999999999999999", "2199023255552"}) {
    EXPECT_TRUE(
        holds(refusal([&] { (void)parse_lengths("--kv-lengths", text); }), "--kv-lengths: "))
        << text;
  }
  EXPECT_EQ(refusal([] { (void)parse_lengths("--lengths", "3,seven"); }),
            "--lengths: expected token counts such as 3,17,512 or 81x64, got 'seven'");
}

TEST(ParseLengths, ARepeatCannotFillTheMemory) {
  EXPECT_TRUE(holds(refusal([] { (void)parse_lengths("--lengths", "999999999999x1"); }),
                    "at most 16777216 segments"));
}

TEST(ParseInteger, HoldsItsRange) {
  EXPECT_EQ(parse_integer("--seed", "7", 0), 7);
  EXPECT_EQ(refusal([] { (void)parse_integer("--seed", "-1", 0); }),
            "--seed: expected an integer of at least 0, got '-1'");
  EXPECT_EQ(refusal([] { (void)parse_integer("--head-dim", "300", 1, 256); }),
            "--head-dim: expected an integer in [1, 256], got '300'");
  for (const char* text : {"", " 1", "1 ", "0x10", "1e3", "one"}) {
    refusal([&] { (void)parse_integer("--seed", text, 0); });
  }
}

TEST(ParseNumber, IsFinite) {
  EXPECT_DOUBLE_EQ(parse_number("--sm-scale", "0.125"), 0.125);
  EXPECT_DOUBLE_EQ(parse_number("--sm-scale", "-2e-3"), -2e-3);
  for (const char* text : {"", "inf", "nan", "1e999", "1x", "0,5"}) {
    EXPECT_EQ(refusal([&] { (void)parse_number("--sm-scale", text); }),
              std::string("--sm-scale: expected a finite number, got '") + text + "'");
  }
}

TEST(SplitList, HasNoEmptyPart) {
  EXPECT_EQ(split_list("--threads", "1,2"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(split_list("--threads", "8"), (std::vector<std::string>{"8"}));
  for (const char* text : {"", "1,", ",1", "1,,2"}) {
    refusal([&] { (void)split_list("--threads", text); });
  }
}

}  // namespace
}  // namespace ragged::tools
