#include "gpu/layouts.hpp"

namespace ragged::test {
namespace {

using Lengths = std::vector<std::int64_t>;

Lengths repeated(std::size_t count, std::int64_t length) { return Lengths(count, length); }

struct Layout {
  Lengths q;
  Lengths kv = {};
  Lengths prefix = {};
};

Family family(std::string name, const Case& shape, const Ceilings& ceilings,
              const std::vector<Layout>& layouts) {
  Family made = {std::move(name), ceilings, {}};
  for (const Layout& layout : layouts) {
    Case c = shape;
    c.name = made.name;
    c.q_lengths = layout.q;
    c.kv_lengths = layout.kv;
    c.prefix_lengths = layout.prefix;
    made.cases.push_back(c);
  }
  return made;
}

std::vector<Layout> self_layouts() {
  Lengths mixed = {300};
  mixed.insert(mixed.end(), 30, 1);
  mixed.push_back(182);
  return {
      {{100, 200, 64}}, {{512}}, {repeated(32, 16)}, {{}}, {{0, 0, 0}}, {{0, 0, 512}}, {{200, 100}},
      {mixed},          {{1}},   {{100, 200, 64}}};
}

}  // namespace

std::vector<Family> layout_families() {
  std::vector<Family> list;
  Case shape;
  shape.num_qo_heads = 4;
  shape.num_kv_heads = 2;
  const Ceilings self = {32, 512, 0};
  for (const int head_dim : {64, 80, 128}) {
    shape.head_dim = head_dim;
    list.push_back(family("self_" + std::to_string(head_dim), shape, self, self_layouts()));
  }
  shape.head_dim = 72;
  shape.causal = true;
  list.push_back(family("causal", shape, self, self_layouts()));
  shape.causal = false;
  shape.kind = AttentionKind::block_causal;
  shape.block_size = 50;
  list.push_back(family("block_causal", shape, self, self_layouts()));

  // Decode-like (edge case 12), with keys long enough to be split.
  shape = Case();
  shape.kind = AttentionKind::cross;
  shape.num_qo_heads = shape.num_kv_heads = 20;
  list.push_back(family("cross", shape, {8, 64, 12000},
                        {{repeated(8, 1), {1500, 1, 700, 1499, 0, 64, 1500, 3}},
                         {repeated(8, 1), {1, 2, 3, 4, 5, 6, 7, 8}},
                         {{1, 1, 1}, {0, 1500, 0}},
                         {{8}, {12000}},
                         {{0, 3, 0, 5}, {10, 0, 7, 77}},
                         {{}, {}},
                         {repeated(8, 8), repeated(8, 1500)}}));

  shape = Case();
  shape.kind = AttentionKind::prefixed;
  shape.num_kv_heads = 1;
  shape.head_dim = 256;
  for (const bool causal : {false, true}) {
    shape.causal = causal;
    list.push_back(family(causal ? "prefixed_causal" : "prefixed", shape, {4, 160, 4500},
                          {{{50, 50, 51}, {}, {816, 0, 300}},
                           {{17, 17, 1, 60}, {}, {0, 4096, 0, 1}},
                           {{0, 0}, {}, {5, 0}},
                           {{160}, {}, {4000}},
                           {{50, 50, 51}, {}, {816, 0, 300}}}));
  }
  return list;
}

WrapperOptions capacity_options(const Target& target, const Family& family, DType dtype) {
  WrapperOptions options = wrapper_options(target, family.cases.front(), dtype);
  options.accelerator_graph = true;
  options.max_num_segments = family.ceilings.max_num_segments;
  options.max_total_tokens = family.ceilings.max_total_tokens;
  if (family.ceilings.max_total_kv_tokens > 0) {
    options.max_total_kv_tokens = family.ceilings.max_total_kv_tokens;
  }
  return options;
}

Result eager_result(const Target& target, const Data& data) {
  How how;
  how.path = Path::wrapper;
  return execute(target, data, how);
}

HostOffsets::HostOffsets(const Case& c)
    : q_(offsets_from_lengths(c.q_lengths)),
      kv_(offsets_from_lengths(c.kv_lengths)),
      prefix_(offsets_from_lengths(c.prefix_lengths)) {}

StepOffsets HostOffsets::views() const { return {q_, kv_, prefix_}; }

namespace {

bool is_narrow(IndexForm form) {
  return form == IndexForm::int32 || form == IndexForm::strided_int32;
}

std::int64_t stride_of(IndexForm form) {
  return form == IndexForm::strided_int32 || form == IndexForm::strided_int64 ? 2 : 1;
}

// What lies between strided entries must not be read as one.
template <typename T>
std::vector<T> spread_out(const std::vector<std::int64_t>& values, std::int64_t stride) {
  std::vector<T> image(static_cast<std::size_t>((std::ssize(values) - 1) * stride + 1), -7);
  for (std::size_t i = 0; i < values.size(); ++i) {
    image[i * static_cast<std::size_t>(stride)] = static_cast<T>(values[i]);
  }
  return image;
}

}  // namespace

DeviceIndex::DeviceIndex(const std::vector<std::int64_t>& values, IndexForm form, Memory& memory)
    : memory_(&memory), form_(form), count_(std::ssize(values)) {
  const std::int64_t entries = (count_ - 1) * stride_of(form) + 1;
  const std::size_t width = is_narrow(form) ? 4 : 8;
  buffer_ = memory.allocate(static_cast<std::size_t>(entries) * width, width);
  set(values);
}

void DeviceIndex::set(const std::vector<std::int64_t>& values) {
  if (is_narrow(form_)) {
    const auto image = spread_out<std::int32_t>(values, stride_of(form_));
    memory_->upload(buffer_.data(), image.data(), buffer_.bytes());
  } else {
    const auto image = spread_out<std::int64_t>(values, stride_of(form_));
    memory_->upload(buffer_.data(), image.data(), buffer_.bytes());
  }
}

IndexView DeviceIndex::view() const {
  return {buffer_.data(), is_narrow(form_) ? IndexType::int32 : IndexType::int64, count_,
          stride_of(form_), memory_->device()};
}

DeviceOffsets::DeviceOffsets(const Case& c, IndexForm form, Memory& memory)
    : q_(offsets_from_lengths(c.q_lengths), form, memory),
      kv_(offsets_from_lengths(c.kv_lengths), form, memory),
      prefix_(offsets_from_lengths(c.prefix_lengths), form, memory) {}

}  // namespace ragged::test
