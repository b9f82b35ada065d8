#include "device/block.hpp"

#include <string>

namespace ragged::device {

Block::~Block() {
  if (data_ != nullptr) room()->free(device_, data_);
}

void Block::make(std::size_t bytes) {
  if (bytes <= bytes_) return;
  Block larger(device_);
  larger.data_ = room()->allocate(device_, bytes);
  larger.bytes_ = bytes;
  swap(larger);
}

void Block::grow(std::size_t bytes, Stream stream) {
  if (bytes <= bytes_) return;
  if (room()->is_capturing(device_, stream)) {
    throw Error(ErrorCode::invalid_state,
                "this plan needs " + std::to_string(bytes) + " bytes on " + to_string(device_) +
                    ", more than the " + std::to_string(bytes_) +
                    " there are, and its stream is being captured; accelerator_graph makes room in "
                    "advance");
  }
  void* const data = room()->allocate(device_, bytes, stream);
  if (data_ != nullptr) room()->free(device_, data_, stream);
  data_ = data;
  bytes_ = bytes;
  room()->fill(device_, data_, 0, bytes_, stream);
}

StreamOrder::~StreamOrder() {
  if (event_.handle != nullptr) room()->free_event(device_, event_);
}

void StreamOrder::enter(Stream stream) {
  if (used_ && stream.handle == last_.handle) return;
  if (room()->is_capturing(device_, stream)) return;
  if (used_ && !room()->is_capturing(device_, last_)) {
    if (event_.handle == nullptr) event_ = room()->make_event(device_, false);
    room()->record(device_, event_, last_);
    room()->wait(device_, stream, event_);
  }
  last_ = stream;
  used_ = true;
}

}  // namespace ragged::device
