"""Custom operators of torch, `torch.ops.ragged_attention.*`, for torch.compile: one graph serves every
layout, since offsets are data and not part of the graph.

| operator | computes |
|---|---|
| self_attention(q, k, v, cu_seqlens, causal=False, sm_scale=None) | RaggedPrefillWrapper |
| cross_attention(q, k, v, q_cu_seqlens, kv_cu_seqlens, sm_scale=None) | RaggedCrossPrefillWrapper |
| block_causal_attention(q, k, v, cu_seqlens, block_size, sm_scale=None) | RaggedBlockCausalWrapper |
| prefixed_attention(q, k, v, q_cu_seqlens, kv_cu_seqlens, causal=False, sm_scale=None) |
  PrefixedPrefillWrapper, keys joined |
| varlen_attention(q, k, v, q_cu_seqlens, kv_cu_seqlens, causal, sm_scale) -> (out, lse) | any of them |
| run_planned(q, k, v, handle) | the last plan of a wrapper; see `planned` |

Each plans and runs; a plan of the same layout costs next to nothing, so layers of one step share theirs.
Inference only: there is no backward pass. Importing this module registers them.
"""

import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from ragged_attention import wrappers
from ragged_attention._wrapper_base import RaggedPrefillBase
from ragged_attention.errors import InvalidArgumentError, InvalidStateError

__all__ = [
    "block_causal_attention",
    "cross_attention",
    "planned",
    "prefixed_attention",
    "self_attention",
    "varlen_attention",
]

# Wrappers that one thread keeps: a model has a few geometries, each with a few layouts a step.
_MOST_WRAPPERS = 64


class _Kept(threading.local):
    """Each thread plans on wrappers of its own, so that no plan comes between another's plan and run."""

    def __init__(self) -> None:
        self.wrappers: OrderedDict[Any, Any] = OrderedDict()


_kept = _Kept()


def wrapper_for(
    kind: type, q: torch.Tensor, k: torch.Tensor, offsets: Any, sm_scale: float | None,
    block_size: int = 0,
) -> Any:  # fmt: skip
    """A wrapper of this geometry on q's device and, on a GPU, of its current stream. Offsets at one
    address are taken for one layout until a plan finds otherwise."""
    if q.ndim != 3 or k.ndim != 3:
        raise InvalidArgumentError(
            f"q and k must be [tokens, heads, head_dim]; got shapes {list(q.shape)} and {list(k.shape)}"
        )
    stream = torch.cuda.current_stream(q.device).cuda_stream if q.is_cuda else 0
    place = offsets.data_ptr() if isinstance(offsets, torch.Tensor) else 0
    shape = (q.shape[1], k.shape[1], q.shape[2])
    key = (kind, shape, q.dtype, q.device, sm_scale, block_size, stream, place)
    found = _kept.wrappers.get(key)
    if found is not None:
        _kept.wrappers.move_to_end(key)
        return found
    extra = (block_size,) if block_size else ()
    made = kind(*shape, *extra, device=q.device, sm_scale=sm_scale, q_data_type=q.dtype)
    _kept.wrappers[key] = made
    while len(_kept.wrappers) > _MOST_WRAPPERS:
        _kept.wrappers.popitem(last=False)
    return made


def attend(
    q: Any, k: Any, v: Any, q_cu_seqlens: Any, kv_cu_seqlens: Any, causal: bool,
    sm_scale: float | None, return_lse: bool = False,
) -> Any:  # fmt: skip
    """Plans and runs whichever kind the layouts ask for: self where both are one object; causal with
    two is aligned at the bottom right."""
    if kv_cu_seqlens is q_cu_seqlens:
        wrapper = wrapper_for(wrappers.RaggedPrefillWrapper, q, k, q_cu_seqlens, sm_scale)
        wrapper.plan(q_cu_seqlens, causal)
    elif causal:
        wrapper = wrapper_for(wrappers.PrefixedPrefillWrapper, q, k, q_cu_seqlens, sm_scale)
        wrapper.plan(q_cu_seqlens, kv_cu_seqlens, causal)
    else:
        wrapper = wrapper_for(wrappers.RaggedCrossPrefillWrapper, q, k, q_cu_seqlens, sm_scale)
        wrapper.plan(q_cu_seqlens, kv_cu_seqlens)
    return wrapper.run(q, k, v, return_lse=return_lse)


def _no_backward(*_: Any, **__: Any) -> Any:
    raise InvalidStateError(
        "ragged_attention is for inference only: it has no backward pass; run under torch.no_grad() or "
        "torch.inference_mode()"
    )


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    """Registers a function as torch.ops.ragged_attention.`name`, without a gradient."""

    def register(function: Callable[..., Any]) -> Any:
        operator = torch.library.custom_op(
            f"ragged_attention::{name}", function, mutates_args=(), schema=schema
        )
        operator.register_autograd(_no_backward)
        return operator

    return register


_TENSORS = "Tensor q, Tensor k, Tensor v, "


@_operator(
    "self_attention",
    f"({_TENSORS}Tensor cu_seqlens, bool causal=False, float? sm_scale=None) -> Tensor",
)
def self_attention(q, k, v, cu_seqlens, causal=False, sm_scale=None):  # type: ignore[no-untyped-def]
    return attend(q, k, v, cu_seqlens, cu_seqlens, causal, sm_scale)


@_operator(
    "cross_attention",
    f"({_TENSORS}Tensor q_cu_seqlens, Tensor kv_cu_seqlens, float? sm_scale=None) -> Tensor",
)
def cross_attention(q, k, v, q_cu_seqlens, kv_cu_seqlens, sm_scale=None):  # type: ignore[no-untyped-def]
    wrapper = wrapper_for(wrappers.RaggedCrossPrefillWrapper, q, k, q_cu_seqlens, sm_scale)
    wrapper.plan(q_cu_seqlens, kv_cu_seqlens)
    return wrapper.run(q, k, v)


@_operator(
    "block_causal_attention",
    f"({_TENSORS}Tensor cu_seqlens, int block_size, float? sm_scale=None) -> Tensor",
)
def block_causal_attention(q, k, v, cu_seqlens, block_size, sm_scale=None):  # type: ignore[no-untyped-def]
    kind = wrappers.RaggedBlockCausalWrapper
    if block_size < 1:
        raise InvalidArgumentError(f"block_size must be at least 1; got {block_size}")
    wrapper = wrapper_for(kind, q, k, cu_seqlens, sm_scale, block_size)
    wrapper.plan(cu_seqlens)
    return wrapper.run(q, k, v)


@_operator(
    "prefixed_attention",
    f"({_TENSORS}Tensor q_cu_seqlens, Tensor kv_cu_seqlens, bool causal=False, "
    "float? sm_scale=None) -> Tensor",
)
def prefixed_attention(  # type: ignore[no-untyped-def]
    q, k, v, q_cu_seqlens, kv_cu_seqlens, causal=False, sm_scale=None
):
    wrapper = wrapper_for(wrappers.PrefixedPrefillWrapper, q, k, q_cu_seqlens, sm_scale)
    wrapper.plan(q_cu_seqlens, kv_cu_seqlens, causal)
    return wrapper.run(q, k, v)


@_operator(
    "varlen_attention",
    f"({_TENSORS}Tensor q_cu_seqlens, Tensor kv_cu_seqlens, bool causal, float? sm_scale) "
    "-> (Tensor, Tensor)",
)
def varlen_attention(q, k, v, q_cu_seqlens, kv_cu_seqlens, causal, sm_scale):  # type: ignore[no-untyped-def]
    return attend(q, k, v, q_cu_seqlens, kv_cu_seqlens, causal, sm_scale, return_lse=True)


_planned: "weakref.WeakValueDictionary[int, RaggedPrefillBase]" = weakref.WeakValueDictionary()
_handles = itertools.count()


@_operator("run_planned", f"({_TENSORS}int handle) -> Tensor")
def run_planned(q, k, v, handle):  # type: ignore[no-untyped-def]
    return _planned[handle].run(q, k, v)


def planned(wrapper: RaggedPrefillBase) -> Callable[[Any, Any, Any], Any]:
    """(q, k, v) -> out under the wrapper's last plan, as one operator: a compiled region calls it, and
    the caller plans outside between steps. Make it once for each wrapper: a graph guards on it."""
    handle = next(_handles)
    _planned[handle] = wrapper

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return torch.ops.ragged_attention.run_planned(q, k, v, handle)

    run.wrapper = wrapper  # type: ignore[attr-defined]  # as long as the callable
    return run


def _fake(q: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return q.new_empty(q.shape)


def _fake_with_lse(q: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)


varlen_attention.register_fake(_fake_with_lse)
for _each in (self_attention, cross_attention, block_causal_attention, prefixed_attention, run_planned):
    _each.register_fake(_fake)
