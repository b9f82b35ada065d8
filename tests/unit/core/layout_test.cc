#include <limits>

#include "support.hpp"

namespace ragged {
namespace {

using test::expect_text;
using test::refusal;

std::string assign_refusal(Layout& layout, const IndexView& offsets) {
  return refusal(ErrorCode::invalid_argument,
                 [&] { layout.assign_offsets(offsets, "cu_seqlens"); });
}

TEST(Layout, TotalsAndMaxima) {
  Layout layout;
  layout.assign_offsets({0, 3, 3, 20}, "cu_seqlens");
  EXPECT_EQ(layout.num_segments(), 3);
  EXPECT_EQ(layout.total_tokens(), 20);
  EXPECT_EQ(layout.extent(), 20);
  EXPECT_EQ(layout.max_length(), 17);
  EXPECT_FALSE(layout.has_gaps());
  EXPECT_EQ(layout.begin(2), 3);
  EXPECT_EQ(layout.end(2), 20);
  EXPECT_EQ(layout.length(1), 0);
}

TEST(Layout, NoSegmentsAtAll) {
  Layout layout;
  EXPECT_EQ(layout.num_segments(), 0);
  layout.assign_offsets({0}, "cu_seqlens");
  EXPECT_EQ(layout.num_segments(), 0);
  EXPECT_EQ(layout.total_tokens(), 0);
  EXPECT_EQ(layout, Layout());
}

TEST(Layout, EveryIndexTypeAndStrideIsTheSame) {
  Layout expected;
  expected.assign_offsets({0, 12, 30, 30}, "cu_seqlens");
  const std::vector<std::int32_t> narrow = {0, 12, 30, 30};
  const std::vector<std::int64_t> spread = {0, -7, 12, -7, 30, -7, 30, -7};
  const std::vector<std::int32_t> backward = {30, 30, 12, 0};
  const IndexView views[] = {
      narrow, {spread.data(), IndexType::int64, 4, 2}, {&backward[3], IndexType::int32, 4, -1}};
  for (const IndexView& view : views) {
    Layout layout;
    layout.assign_offsets(view, "cu_seqlens");
    EXPECT_EQ(layout, expected);
    EXPECT_TRUE(expected.same_offsets(view));
  }
  EXPECT_FALSE(expected.same_offsets({0, 12, 31, 31}));
  EXPECT_FALSE(expected.same_offsets({0, 12, 30}));
  EXPECT_FALSE(
      expected.same_offsets({narrow.data(), IndexType::int32, 4, 1, {DeviceKind::cuda, 0}}));
}

TEST(Layout, UnalignedOffsetsAreRead) {
  std::vector<char> bytes(1 + 3 * sizeof(std::int32_t));
  const std::int32_t values[] = {0, 5, 9};
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  Layout layout;
  layout.assign_offsets({bytes.data() + 1, IndexType::int32, 3}, "cu_seqlens");
  EXPECT_EQ(layout.total_tokens(), 9);
}

TEST(Layout, RefusalsNameIndexAndValues) {
  Layout layout;
  layout.assign_offsets({0, 4}, "cu_seqlens");
  const Layout before = layout;
  EXPECT_EQ(assign_refusal(layout, {0, 12, 57, 40, 3}),
            "cu_seqlens[3] = 40 is less than cu_seqlens[2] = 57");
  EXPECT_EQ(assign_refusal(layout, {100, 102}), "cu_seqlens[0] must be 0; got 100");
  EXPECT_EQ(assign_refusal(layout, {0, -1}), "cu_seqlens[1] = -1 is less than cu_seqlens[0] = 0");
  EXPECT_EQ(assign_refusal(layout, std::vector<std::int32_t>{}),
            "cu_seqlens must have at least 1 entry; got 0");
  EXPECT_EQ(assign_refusal(layout, {nullptr, IndexType::int32, 5}),
            "cu_seqlens has 5 entries but its data is null");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_text(assign_refusal(layout, {0, most}),
              "cu_seqlens[1] = 9223372036854775807 is more than");
  const std::int32_t device_side = 0;
  expect_text(assign_refusal(layout, {&device_side, IndexType::int32, 1, 1, {DeviceKind::cuda, 1}}),
              "cu_seqlens must be on the host; got a tensor on cuda:1");
  EXPECT_EQ(layout, before) << "a refused assign changed the layout";
}

TEST(Layout, SpansWithGaps) {
  Layout layout;
  layout.assign_spans({{10, 0, 40}, {5, 10, 0}}, "q");  // out of order, touching, one empty
  EXPECT_TRUE(layout.has_gaps());
  EXPECT_EQ(layout.num_segments(), 3);
  EXPECT_EQ(layout.begin(0), 10);
  EXPECT_EQ(layout.end(0), 15);
  EXPECT_EQ(layout.length(2), 0);
  EXPECT_EQ(layout.total_tokens(), 15);
  EXPECT_EQ(layout.extent(), 15) << "an empty segment needs no rows";
  EXPECT_EQ(layout.max_length(), 10);
  layout.assign_offsets({0, 2, 6}, "cu_seqlens");
  Layout packed;
  packed.assign_spans({{0, 2}, {2, 4}}, "q");
  EXPECT_EQ(layout, packed) << "spans without gaps are the packed layout";
  EXPECT_TRUE(packed.same_offsets({0, 2, 6}));
}

TEST(Layout, SpanRefusals) {
  Layout layout;
  const auto spans = [&](const SegmentSpans& s) {
    return refusal(ErrorCode::invalid_argument, [&] { layout.assign_spans(s, "q"); });
  };
  EXPECT_EQ(spans({{0, 5}, {6, 2}}),
            "q: segment 1 starts at row 5, inside segment 0, which ends at row 6");
  EXPECT_EQ(spans({{8, 0, 3}, {2, 4, 1}}),
            "q: segment 2 starts at row 3, inside segment 1, which ends at row 4");
  expect_text(spans({{0, -3}, {1, 1}}), "q.starts[1] = -3 must be in 0..");
  expect_text(spans({{0, 3}, {1, -1}}), "q.lengths[1] = -1 must be in 0..");
  EXPECT_EQ(spans({{0, 3}, {1}}), "q.starts has 2 entries, q.lengths has 1");
  // Their sum passes 63 bits.
  const std::vector<std::int64_t> starts(70000, 0);
  const std::vector<std::int64_t> lengths(70000, std::int64_t{1} << 48);
  expect_text(spans({starts, lengths}), "q: segment 1 starts at row 0, inside segment 0");
  EXPECT_EQ(layout, Layout());
}

TEST(Layout, ReservedStorageIsReused) {
  Layout layout;
  layout.reserve(100);
  layout.assign_offsets({0, 1}, "cu_seqlens");
  const std::int64_t* storage = layout.begins();
  layout.assign_offsets(std::vector<std::int64_t>(101, 0), "cu_seqlens");
  EXPECT_EQ(layout.begins(), storage);
}

TEST(Layout, OffsetsFromLengths) {
  const std::vector<std::int64_t> lengths = {3, 0, 4};
  EXPECT_EQ(offsets_from_lengths(lengths), (std::vector<std::int64_t>{0, 3, 3, 7}));
  EXPECT_EQ(offsets_from_lengths({}), std::vector<std::int64_t>{0});
  const std::vector<std::int64_t> negative = {3, -2};
  expect_text(refusal(ErrorCode::invalid_argument, [&] { offsets_from_lengths(negative); }),
              "lengths[1] = -2");
  const std::vector<std::int64_t> large(3, std::numeric_limits<std::int64_t>::max() / 2);
  expect_text(refusal(ErrorCode::invalid_argument, [&] { offsets_from_lengths(large); }),
              "lengths[2] = ");
}

TEST(Views, PackedStridesAndRows) {
  float data[2 * 3 * 8] = {};
  const TensorView view = TensorView::packed(data, DType::fp32, 2, 3, 8);
  EXPECT_EQ(view.row(1, 2), &data[24 + 16]);
  const LseView lse = LseView::packed(data, 4, 3);
  EXPECT_EQ(lse.strides[0], 3);
}

TEST(Device, TextAndBack) {
  EXPECT_EQ(to_string(Device{DeviceKind::cuda, 3}), "cuda:3");
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceKind::cuda, 3}));
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(parse_device("cpu"), Device());
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cpu:0", "cuda:99999999999"}) {
    expect_text(refusal(ErrorCode::invalid_argument, [&] { parse_device(bad); }), "'");
  }
}

}  // namespace
}  // namespace ragged
