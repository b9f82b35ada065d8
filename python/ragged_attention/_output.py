"""Outputs that we allocate: tensors of the caller's own library and device, beside its queries.

Rows past the plan, and rows in gaps between segments, are 0 (of an LSE, -inf): no run writes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ragged_attention.errors import WrongTypeError

# (tensor to write, what to hand back once it is written)
Allocated = tuple[Any, Callable[[Any], Any] | None]
Allocator = Callable[[Any, int], Allocated]

_ALLOCATORS: dict[type, tuple[Allocator, Allocator]] = {}


def like(q: Any, rows: int) -> Allocated:
    """An output of q's shape. `rows`: how many a run writes from the first on; -1: unknown."""
    pair = _ALLOCATORS.get(type(q)) or _learn(q)
    return pair[0](q, rows)


def lse_like(q: Any, rows: int) -> Allocated:
    """An LSE for q: [tokens, num_qo_heads] of fp32."""
    pair = _ALLOCATORS.get(type(q)) or _learn(q)
    return pair[1](q, rows)


def _learn(q: Any) -> tuple[Allocator, Allocator]:
    makers = {"torch": _torch, "numpy": _numpy, "cupy": _numpy, "jax": _jax, "jaxlib": _jax}
    for base in type(q).__mro__:  # torch.nn.Parameter, subclasses of arrays
        root = base.__module__.partition(".")[0]
        if root in makers:
            _ALLOCATORS[type(q)] = makers[root](root)
            return _ALLOCATORS[type(q)]
    raise WrongTypeError(
        f"q is a {type(q).__module__}.{type(q).__qualname__}, and an output can be made for tensors of "
        "torch, NumPy, CuPy and JAX only; pass out="
    )


def _torch(_root: str) -> tuple[Allocator, Allocator]:
    torch = importlib.import_module("torch")
    empty_like, packed = torch.empty_like, torch.contiguous_format
    float32, infinity = torch.float32, float("-inf")

    def out(q: Any, rows: int) -> Allocated:
        made = empty_like(q, memory_format=packed)
        shape = q.shape
        if shape and shape[0] != rows:
            made[max(rows, 0) :].zero_()
        return made, None

    def lse(q: Any, rows: int) -> Allocated:
        shape = q.shape[:2]
        made = q.new_empty(shape, dtype=float32)
        if shape and shape[0] != rows:
            made[max(rows, 0) :].fill_(infinity)
        return made, None

    return out, lse


def _numpy(root: str) -> tuple[Allocator, Allocator]:
    library = importlib.import_module(root)

    def out(q: Any, rows: int) -> Allocated:
        made = library.empty(q.shape, q.dtype)
        if q.shape and q.shape[0] != rows:
            made[max(rows, 0) :] = 0
        return made, None

    def lse(q: Any, rows: int) -> Allocated:
        made = library.empty(q.shape[:2], "float32")
        if q.shape and q.shape[0] != rows:
            made[max(rows, 0) :] = float("-inf")
        return made, None

    return out, lse


def _jax(_root: str) -> tuple[Allocator, Allocator]:
    # JAX's arrays are immutable once they are JAX's: what is written is NumPy's.
    jax_numpy = importlib.import_module("jax.numpy")
    numpy_out, numpy_lse = _numpy("numpy")

    def checked(q: Any) -> Any:
        if any(device.platform != "cpu" for device in q.devices()):
            raise WrongTypeError(
                f"q is a JAX array on {q.devices()}, where no output can be made for it; pass out="
            )
        return q

    def out(q: Any, rows: int) -> Allocated:
        return numpy_out(checked(q), rows)[0], jax_numpy.asarray

    def lse(q: Any, rows: int) -> Allocated:
        return numpy_lse(checked(q), rows)[0], jax_numpy.asarray

    return out, lse
