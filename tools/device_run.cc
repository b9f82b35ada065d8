#include "device_run.hpp"

#include "device/room.hpp"

namespace ragged::tools {

DeviceRun::DeviceRun(const Plan& plan)
    : plan_(plan),
      device_(plan.device.device),
      begin_(device::room()->make_event(device_, true)),
      end_(device::room()->make_event(device_, true)) {
  for (device::Block* block :
       {&table_, &workspace_, &q_, &k_, &v_, &prefix_k_, &prefix_v_, &out_, &lse_}) {
    *block = device::Block(device_);
  }
  if (plan.table_bytes > 0) table_.make(plan.table_bytes);
  if (plan.workspace_bytes > 0) workspace_.make(plan.workspace_bytes);
  arguments_.table = {table_.data(), table_.bytes()};
  arguments_.workspace = {workspace_.data(), workspace_.bytes()};
  stage(plan, {.table = arguments_.table, .workspace = arguments_.workspace});
}

DeviceRun::~DeviceRun() {
  device::room()->free_event(device_, begin_);
  device::room()->free_event(device_, end_);
}

void DeviceRun::upload(const Inputs& inputs, const Tensor& out, const std::vector<float>& lse) {
  const auto copy = [&](device::Block& block, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    block.make(bytes);
    device::room()->copy(device_, block.data(), from, bytes, {});
  };
  const auto put = [&](device::Block& block, const Tensor& tensor, TensorView& view) {
    copy(block, tensor.bytes().data(), tensor.bytes().size());
    view = tensor.view();
    view.data = block.data();
    view.device = device_;
  };
  put(q_, inputs.q, arguments_.q);
  put(k_, inputs.k, arguments_.k);
  put(v_, inputs.v, arguments_.v);
  if (plan_.problem.two_sources) {
    put(prefix_k_, inputs.prefix_k, arguments_.prefix_k);
    put(prefix_v_, inputs.prefix_v, arguments_.prefix_v);
  }
  put(out_, out, arguments_.out);
  copy(lse_, lse.data(), lse.size() * sizeof(float));
  arguments_.lse = LseView::packed(static_cast<float*>(lse_.data()), out.tokens(),
                                   plan_.problem.num_qo_heads, device_);
  uploaded_ = inputs.q.bytes().data();
}

double DeviceRun::run(const Inputs& inputs, const Tensor& out, const std::vector<float>& lse) {
  if (uploaded_ != inputs.q.bytes().data() || uploaded_ == nullptr) upload(inputs, out, lse);
  device::room()->record(device_, begin_, {});
  ragged::run(plan_, arguments_);
  device::room()->record(device_, end_, {});
  return device::room()->elapsed_us(device_, begin_, end_);
}

void DeviceRun::fetch(Tensor& out, std::vector<float>& lse) {
  if (out.bytes().empty()) return;
  device::room()->copy(device_, out.bytes().data(), out_.data(), out.bytes().size(), {});
  device::room()->copy(device_, lse.data(), lse_.data(), lse.size() * sizeof(float), {});
}

}  // namespace ragged::tools
