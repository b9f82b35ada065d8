"""Drop-ins for functions of other packages, with their signatures; what this library cannot do is
refused by name. And attention over a padded batch.

    from ragged_attention.varlen import flash_attn_varlen_func   # instead of flash_attn's
    from ragged_attention.varlen import varlen_attn              # instead of torch.nn.attention.varlen's
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ragged_attention import torch_ops, wrappers
from ragged_attention.errors import InvalidArgumentError, UnsupportedError

__all__ = ["AuxRequest", "flash_attn_varlen_func", "padded_attention", "varlen_attn"]


def refuse_unless(function: str, argument: str, value: Any, *served: Any) -> None:
    """UnsupportedError naming the argument, unless its value is one of those that are served."""
    if any(value is one or (value == one and type(value) is type(one)) for one in served):
        return
    expected = " or ".join(repr(one) for one in served)
    raise UnsupportedError(f"{function}: {argument} must be {expected} here; got {value!r}")


def _attend(
    q: Any, k: Any, v: Any, q_cu: Any, kv_cu: Any, causal: bool, scale: float | None, lse: bool
) -> Any:
    if torch.compiler.is_compiling():
        both = torch.ops.ragged_attention.varlen_attention(q, k, v, q_cu, kv_cu, causal, scale)
        return both if lse else both[0]
    return torch_ops.attend(q, k, v, q_cu, kv_cu, causal, scale, lse)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> Any:
    """flash_attn.flash_attn_varlen_func. q: [total_q, heads, head_dim]; k, v: [total_k, kv_heads,
    head_dim]. Causal is aligned at the bottom right. Results are deterministic always, and the maximal
    lengths are not needed.

    return_attn_probs: (out, lse, None) with lse of [heads, total_q]; flash_attn gives its third value
    only under dropout. UnsupportedError: dropout, windows, soft caps, ALiBi and block tables.
    """
    del max_seqlen_q, max_seqlen_k, deterministic
    name = "flash_attn_varlen_func"
    refuse_unless(name, "dropout_p", dropout_p, 0.0, 0)
    refuse_unless(name, "window_size", tuple(window_size), (-1, -1))
    refuse_unless(name, "softcap", softcap, 0.0, 0)
    refuse_unless(name, "alibi_slopes", alibi_slopes, None)
    refuse_unless(name, "block_table", block_table, None)
    result = _attend(
        q, k, v, cu_seqlens_q, cu_seqlens_k, causal, softmax_scale, return_attn_probs
    )
    return (result[0], result[1].transpose(0, 1), None) if return_attn_probs else result


class AuxRequest(NamedTuple):
    """What varlen_attn gives besides its output; torch's own AuxRequest will do too."""

    lse: bool = False


def varlen_attn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
) -> Any:
    """torch.nn.attention.varlen.varlen_attn. window_size (-1, -1) sees everything, (-1, 0) is causal;
    any other is an UnsupportedError. return_aux with lse gives (out, lse of [total_q, heads])."""
    del max_q, max_k
    refuse_unless("varlen_attn", "window_size", tuple(window_size), (-1, -1), (-1, 0))
    with_lse = return_aux is not None and bool(return_aux.lse)
    causal = tuple(window_size) == (-1, 0)
    return _attend(query, key, value, cu_seq_q, cu_seq_k, causal, scale, with_lse)


def padded_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    kv_mask: torch.Tensor | None = None,
    causal: bool = False,
    sm_scale: float | None = None,
) -> torch.Tensor:
    """Attention over a padded batch, computed on its real tokens alone.

    q: [batch, q_len, heads, head_dim]; k, v: [batch, kv_len, kv_heads, head_dim]. mask: [batch, q_len],
    true or 1 where a token is real; kv_mask: the same of the keys, by default `mask` where the lengths
    agree, and all keys where they do not. None: all tokens are real. Returns q's shape, 0 where padded.

    Where each entry's real tokens stand together (padding on the left, the right or both), nothing is
    packed: they are read in place.
    """
    if q.ndim != 4 or k.ndim != 4:
        raise InvalidArgumentError(
            "q and k must be [batch, length, heads, head_dim]; got shapes "
            f"{list(q.shape)} and {list(k.shape)}"
        )
    own = kv_mask is None and q.shape[:2] == k.shape[:2]
    q_tokens = _Tokens.of("mask", mask, q)
    kv_tokens = q_tokens if own else _Tokens.of("kv_mask", kv_mask, k)
    q_rows, k_rows, v_rows = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
    if q_tokens.spans is not None and kv_tokens.spans is not None and (own or not causal):
        kind = wrappers.RaggedPrefillWrapper if own else wrappers.RaggedCrossPrefillWrapper
        wrapper = torch_ops.wrapper_for(kind, q_rows, k_rows, None, sm_scale)
        wrapper.plan(q_tokens.spans, *((causal,) if own else (kv_tokens.spans,)))
        out: torch.Tensor = wrapper.run(q_rows, k_rows, v_rows)
        return out.view(q.shape)
    kv_rows = kv_tokens.rows.to(k.device)
    rows = q_tokens.rows.to(q.device)
    offsets = q_tokens.offsets if own else kv_tokens.offsets
    packed = torch_ops.attend(
        q_rows[rows], k_rows[kv_rows], v_rows[kv_rows], q_tokens.offsets, offsets, causal, sm_scale
    )
    return q.new_zeros(q_rows.shape).index_copy_(0, rows, packed).view(q.shape)


class _Tokens:
    """The real tokens of a padded batch."""

    def __init__(self, real: torch.Tensor) -> None:
        batch, length = real.shape
        lengths = real.sum(1)
        first = real.to(torch.uint8).argmax(1) if length else lengths
        place = torch.arange(length)
        together = (place >= first[:, None]) & (place < (first + lengths)[:, None])
        self._real = real
        self._lengths = lengths
        self.spans = None
        if torch.equal(together, real):
            starts = torch.arange(batch) * length + first
            self.spans = wrappers.SegmentSpans(starts, lengths)

    @classmethod
    def of(cls, name: str, mask: torch.Tensor | None, tensor: torch.Tensor) -> _Tokens:
        if mask is None:
            return cls(torch.ones(tensor.shape[:2], dtype=torch.bool))
        if mask.shape != tensor.shape[:2]:
            raise InvalidArgumentError(
                f"{name} must be [batch, length] = {list(tensor.shape[:2])}; got {list(mask.shape)}"
            )
        return cls(mask.detach().to("cpu", torch.bool))

    @property
    def rows(self) -> torch.Tensor:
        return self._real.flatten().nonzero().flatten()

    @property
    def offsets(self) -> torch.Tensor:
        return torch.nn.functional.pad(self._lengths.cumsum(0), (1, 0))
