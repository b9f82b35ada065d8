"""Wrappers of the same shape over FlashAttention 3: the wheel `fa3-fwd`, where it is installed.

    from ragged_attention.dense_wrappers import DensePrefixedPrefillWrapper

Constructors, `plan` and `run` are those of ragged_attention.wrappers; tensors are torch's. The wheel is
loaded by the first wrapper; UnsupportedError says what is missing. It serves Hopper and Ampere, head dims
of multiples of 8 up to 256, and the dtypes that it was built with (0.0.3: bf16).

What differs is the kernel's own: it reads tiles of keys to their end, so that a NaN in a row that follows
a segment reaches the segment's last tile; keys of two sources, or in pages, are joined by a copy in every
run; and a row's bits may depend on its neighbours.
"""

from __future__ import annotations

from typing import Any

import torch

from ragged_attention import _arguments, _dense_layout
from ragged_attention._dense_base import DenseBase
from ragged_attention._dense_layout import JoinIndex, Offsets, PageTable, refuse_above
from ragged_attention.errors import InvalidArgumentError, InvalidStateError

__all__ = [
    "DensePrefixedPrefillWrapper",
    "DenseRaggedCrossPrefillWrapper",
    "DenseRaggedPrefillWrapper",
]


class DenseRaggedPrefillWrapper(DenseBase):
    """Varlen self-attention through FlashAttention 3: each segment attends within itself."""

    def plan(self, cu_seqlens: Any, causal: bool = False) -> None:
        """Plans one packed layout. cu_seqlens: [num_segments + 1], first entry 0. On the host preferred,
        where it is checked; one on the GPU is taken as it is, and not waited for."""
        layout = self._offsets("cu_seqlens", cu_seqlens, "tokens")
        self._keep(layout, layout, causal)


class DenseRaggedCrossPrefillWrapper(DenseBase):
    """Varlen cross-attention through FlashAttention 3: query segment i attends key segment i."""

    def plan(self, q_cu_seqlens: Any, kv_cu_seqlens: Any) -> None:
        """Plans one query layout against one key layout of the same segment count."""
        q, kv = _pair(self, q_cu_seqlens, "kv_cu_seqlens", kv_cu_seqlens)
        self._keep(q, kv, False)


def _pair(wrapper: DenseBase, q: Any, name: str, other: Any) -> tuple[Offsets, Offsets]:
    of_q = wrapper._offsets("q_cu_seqlens", q, "tokens")
    of_other = wrapper._offsets(name, other, "key tokens")
    if of_q.num_segments != of_other.num_segments:
        raise InvalidArgumentError(
            f"{name} must have {of_q.num_segments} segments, as q_cu_seqlens; got {of_other.num_segments}"
        )
    return of_q, of_other


class DensePrefixedPrefillWrapper(DenseBase):
    """Query segment i attends key segment i: a frozen prefix followed by the query's own tokens. Keys come
    joined (`plan`, `run`), as two sources (`plan_two_sources`, `run_two_sources`), or with the prefix in
    the pages of a cache (`plan_paged`, `run_paged`)."""

    _pages: PageTable | None = None
    _prefix_rows: int | None = None

    def plan(self, q_cu_seqlens: Any, kv_cu_seqlens: Any, causal: bool = False) -> None:
        """Plans for joined keys; kv_cu_seqlens counts prefix and fresh tokens."""
        q, kv = _pair(self, q_cu_seqlens, "kv_cu_seqlens", kv_cu_seqlens)
        self._keep(q, kv, causal)
        self._pages = None

    def plan_two_sources(
        self, q_cu_seqlens: Any, prefix_cu_seqlens: Any, causal: bool = False
    ) -> None:
        """Plans for packed prefix keys, laid out by prefix_cu_seqlens, and fresh keys, laid out by
        q_cu_seqlens. Offsets on a GPU need max_total_tokens and max_total_kv_tokens: the joined keys'
        memory is of a size that the host chooses."""
        self._plan_joined(q_cu_seqlens, prefix_cu_seqlens, causal, None, 1)

    def plan_paged(
        self,
        q_cu_seqlens: Any,
        prefix_cu_seqlens: Any,
        page_table: Any,
        page_size: int,
        causal: bool = False,
    ) -> None:
        """As plan_two_sources, with prefix keys in pages: key j of segment i's prefix is slot
        j % page_size of page page_table[i, j // page_size]. page_table: [num_segments, pages of the longest
        prefix], int32 or int64; entries behind a prefix are not read. Offsets and table on the GPU are not
        waited for; a page that the cache does not have is there an error of the device."""
        size = _arguments.integer("page_size", page_size)
        self._plan_joined(q_cu_seqlens, prefix_cu_seqlens, causal, page_table, size)

    def _plan_joined(
        self, q_cu_seqlens: Any, prefix_cu_seqlens: Any, causal: Any, table: Any, page_size: int
    ) -> None:
        q, prefix = _pair(self, q_cu_seqlens, "prefix_cu_seqlens", prefix_cu_seqlens)
        pages = None if table is None else PageTable.of(table, page_size, prefix)
        total = None
        if q.total is not None and prefix.total is not None:
            total = q.total + prefix.total
        refuse_above(total, "key tokens", "max_total_kv_tokens", self._kv_tokens)
        exact = q.rows is not None and prefix.rows is not None
        fresh_rows = self._tokens if q.rows is None else q.rows
        key_rows = total if exact else self._kv_tokens
        if fresh_rows is None or key_rows is None:
            raise InvalidArgumentError(
                "max_total_tokens and max_total_kv_tokens are required with offsets on a device; none "
                "was given"
            )
        join = _dense_layout.join_index(
            q.cu_seqlens, prefix.cu_seqlens, key_rows, fresh_rows, exact, pages
        )
        lengths = None
        if q.lengths is not None and prefix.lengths is not None:
            lengths = q.lengths + prefix.lengths
        kv = Offsets(join.cu_seqlens, q.num_segments, total, lengths, varies=not exact)
        self._keep(q, kv, causal, join)
        self._pages, self._prefix_rows = pages, prefix.total

    def run_two_sources(
        self,
        q: Any,
        prefix_k: Any,
        prefix_v: Any,
        k: Any,
        v: Any,
        out: Any = None,
        lse: Any = None,
        *,
        return_lse: bool = False,
        stream: Any = None,
    ) -> Any:
        """`run` after plan_two_sources. prefix_k, prefix_v: [>= prefix tokens, num_kv_heads,
        head_dim]; k, v: the fresh keys and values."""
        if self._pages is not None:
            raise InvalidStateError("the last plan has its prefix in pages; call run_paged")
        join, q_plan = self._join_of_plan(), self._plan()[0]
        for name, x in {"prefix_k": prefix_k, "prefix_v": prefix_v}.items():
            self._check(name, x, self._kv_heads, self._prefix_rows)
        return self._run_joined(q, prefix_k, prefix_v, k, v, out, lse, return_lse, stream, join, q_plan)

    def run_paged(
        self,
        q: Any,
        k_pages: Any,
        v_pages: Any,
        k: Any,
        v: Any,
        out: Any = None,
        lse: Any = None,
        *,
        return_lse: bool = False,
        stream: Any = None,
    ) -> Any:
        """`run` after plan_paged. k_pages, v_pages: [pages, page_size, num_kv_heads, head_dim], of any
        strides; k, v: the fresh keys and values."""
        join, q_plan = self._join_of_plan(), self._plan()[0]
        if self._pages is None:
            raise InvalidStateError("the last plan has no pages; call plan_paged first")
        size, last = self._pages.page_size, self._pages.last_page
        for name, x in {"k_pages": k_pages, "v_pages": v_pages}.items():
            if not isinstance(x, torch.Tensor) or x.ndim != 4 or x.shape[1] != size:
                got = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
                raise InvalidArgumentError(
                    f"{name} must be [pages, {size}, num_kv_heads, head_dim]; got {got}"
                )
            self._check(name, x[:, 0], self._kv_heads, None)
            if x.shape[0] <= last:
                raise InvalidArgumentError(
                    f"{name} has {x.shape[0]} pages; page_table names page {last}"
                )
        return self._run_joined(q, k_pages, v_pages, k, v, out, lse, return_lse, stream, join, q_plan)

    def _join_of_plan(self) -> JoinIndex:
        self._plan()
        if self._join is None:
            raise InvalidStateError("the last plan has joined keys; call plan_two_sources or plan_paged")
        return self._join

    def _run_joined(
        self, q: Any, old_k: Any, old_v: Any, k: Any, v: Any, out: Any, lse: Any, return_lse: bool,
        stream: Any, join: JoinIndex, q_plan: Offsets,
    ) -> Any:  # fmt: skip
        for name, x in {"k": k, "v": v}.items():
            self._check(name, x, self._kv_heads, q_plan.total)
        with torch.cuda.stream(stream):
            return self._attend(q, join.join(old_k, k), join.join(old_v, v), out, lse, return_lse)
