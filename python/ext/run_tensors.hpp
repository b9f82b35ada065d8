#pragma once

// The tensors that a run brings, kept for the length of the call.

#include <optional>

#include "tensors.hpp"

namespace ragged::python {

struct RunTensors {
  RunTensors(nb::handle q_object, nb::handle k_object, nb::handle v_object, nb::handle out_object,
             nb::handle lse_object, nb::handle stream_object)
      : q(q_object, "q", Access::read),
        k(k_object, "k", Access::read),
        v(v_object, "v", Access::read),
        out(out_object, "out", Access::write) {
    if (!lse_object.is_none()) lse.emplace(lse_object, "lse", Access::write);
    stream = stream_for(out.device(), stream_object, q_object);
  }

  TensorArgument q, k, v, out;
  std::optional<TensorArgument> lse;
  Stream stream;
};

struct RunViews {
  explicit RunViews(const RunTensors& t)
      : q(t.q.view()), k(t.k.view()), v(t.v.view()), out(t.out.view()) {
    if (t.lse) lse = t.lse->lse_view();
  }

  TensorView q, k, v, out;
  LseView lse;
};

}  // namespace ragged::python
