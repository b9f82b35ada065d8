"""Cacheless (ragged) prefill wrappers: queries and keys packed by segment into
[total_tokens, heads, head_dim] tensors, laid out by cu_seqlens ([num_segments + 1], first entry 0).

Offsets may be a list, or a tensor of int32 or int64 of any array library; on the host preferred.
Common to the constructors:

num_qo_heads, num_kv_heads: any whole ratio of the two. head_dim: 8..256, a multiple of 8.
max_num_segments, max_total_tokens, max_total_kv_tokens: ceilings, in segments and tokens.
device: "cpu", "cuda", "cuda:1", or a device of torch or JAX.
accelerator_graph: capacity mode. Every choice and buffer comes from the ceilings, so that one captured
    graph replays any layout within them.
sm_scale: factor of the scores, head_dim ** -0.5 unless given.
q_data_type: of q, k, v and out: bf16, fp16 or fp32, as a dtype or its name.
backend: "auto", or the one backend that may serve. threads: workers of a run on the CPU, 0 for all
    cores. facts: what to plan for instead of this machine, for example "cpu:avx2:8".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragged_attention import _arguments, _ext, _output
from ragged_attention._wrapper_base import RaggedPrefillBase
from ragged_attention.config import RaggedAttnBackend
from ragged_attention.errors import InvalidArgumentError, UnsupportedError

__all__ = [
    "FlashInferPrefixedPrefillWrapper",
    "FlashInferRaggedCrossPrefillWrapper",
    "FlashInferRaggedPrefillWrapper",
    "PrefixedPrefillWrapper",
    "RaggedBlockCausalWrapper",
    "RaggedCrossPrefillWrapper",
    "RaggedPrefillWrapper",
    "SegmentSpans",
    "padded_head_dim",
]


def padded_head_dim(head_dim: int) -> int:
    """The smallest head dim that FlashInfer supports at or above `head_dim`: 64, 128 or 256.
    ValueError above 256. Nothing here pads: true head dims are served as they are."""
    return _ext.padded_head_dim(_arguments.integer("head_dim", head_dim))


@dataclass(frozen=True)
class SegmentSpans:
    """Segments given one by one, for buffers with gaps between them: segment i is the rows
    [starts[i], starts[i] + lengths[i]). Taken in the place of cu_seqlens. Segments must not overlap;
    rows in gaps are never touched."""

    starts: Any
    lengths: Any


class RaggedPrefillWrapper(RaggedPrefillBase):
    """Varlen self-attention: each segment attends within itself."""

    _kind = "self"

    def __init__(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        max_num_segments: int | None = None,
        max_total_tokens: int | None = None,
        max_total_kv_tokens: int | None = None,
        device: Any = "cuda",
        accelerator_graph: bool = False,
        sm_scale: float | None = None,
        q_data_type: Any = "bfloat16",
        *,
        backend: Any = RaggedAttnBackend.AUTO,
        threads: int = 0,
        facts: str | None = None,
    ) -> None:
        super().__init__(
            num_qo_heads, num_kv_heads, head_dim, max_num_segments, max_total_tokens,
            max_total_kv_tokens, device, accelerator_graph, sm_scale, q_data_type, backend, threads,
            facts,
        )  # fmt: skip

    def plan(self, cu_seqlens: Any, causal: bool = False, *, stream: Any = None) -> None:
        """Plans one packed layout. cu_seqlens: [num_segments + 1], first entry 0; or SegmentSpans.

        Safe before every replay: values are copied through the static buffers, never rebound. A
        layout equal to the last one costs next to nothing. On an error the plan before it still
        works. ValueError names the first bad entry, or the ceiling that is passed.
        """
        causal = _arguments.flag("causal", causal)
        plan = self._ext.plan_spans if isinstance(cu_seqlens, SegmentSpans) else self._ext.plan
        self._rows = plan(cu_seqlens, None, causal, stream)


class RaggedCrossPrefillWrapper(RaggedPrefillBase):
    """Varlen cross-attention between two packed layouts: query segment i attends key segment i.
    Never causal.

    The key side has a token ceiling of its own, max_total_kv_tokens (by default max_total_tokens).
    """

    _kind = "cross"

    def __init__(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        max_num_segments: int | None = None,
        max_total_tokens: int | None = None,
        max_total_kv_tokens: int | None = None,
        device: Any = "cuda",
        accelerator_graph: bool = False,
        sm_scale: float | None = None,
        q_data_type: Any = "bfloat16",
        *,
        backend: Any = RaggedAttnBackend.AUTO,
        threads: int = 0,
        facts: str | None = None,
    ) -> None:
        super().__init__(
            num_qo_heads, num_kv_heads, head_dim, max_num_segments, max_total_tokens,
            max_total_kv_tokens, device, accelerator_graph, sm_scale, q_data_type, backend, threads,
            facts,
        )  # fmt: skip

    def plan(self, q_cu_seqlens: Any, kv_cu_seqlens: Any, *, stream: Any = None) -> None:
        """Plans one query layout against one key layout, each [num_segments + 1] with first entry 0
        and of the same segment count; or both SegmentSpans."""
        spans = isinstance(q_cu_seqlens, SegmentSpans)
        if spans != isinstance(kv_cu_seqlens, SegmentSpans):
            raise InvalidArgumentError(
                "q_cu_seqlens and kv_cu_seqlens must both be offsets or both SegmentSpans"
            )
        plan = self._ext.plan_spans if spans else self._ext.plan
        self._rows = plan(q_cu_seqlens, kv_cu_seqlens, False, stream)


class PrefixedPrefillWrapper(RaggedPrefillBase):
    """Query segment i attends key segment i, which holds a frozen prefix followed by the query's own
    tokens. Causal aligns each query segment to the end of its keys.

    Keys come joined (`plan`, `run`), or as two sources that are never joined in memory
    (`plan_two_sources`, `run_two_sources`).
    """

    _kind = "prefixed"

    def __init__(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        max_num_segments: int | None = None,
        max_total_tokens: int | None = None,
        max_total_kv_tokens: int | None = None,
        device: Any = "cuda",
        accelerator_graph: bool = False,
        sm_scale: float | None = None,
        q_data_type: Any = "bfloat16",
        *,
        backend: Any = RaggedAttnBackend.AUTO,
        threads: int = 0,
        facts: str | None = None,
    ) -> None:
        super().__init__(
            num_qo_heads, num_kv_heads, head_dim, max_num_segments, max_total_tokens,
            max_total_kv_tokens, device, accelerator_graph, sm_scale, q_data_type, backend, threads,
            facts,
        )  # fmt: skip

    def plan(
        self, q_cu_seqlens: Any, kv_cu_seqlens: Any, causal: bool = False, *, stream: Any = None
    ) -> None:
        """Plans for joined keys. Each [num_segments + 1] with first entry 0; kv_cu_seqlens counts
        prefix and fresh tokens."""
        causal = _arguments.flag("causal", causal)
        self._rows = self._ext.plan(q_cu_seqlens, kv_cu_seqlens, causal, stream)

    def plan_two_sources(
        self,
        q_cu_seqlens: Any,
        prefix_cu_seqlens: Any,
        causal: bool = False,
        *,
        fresh_cu_seqlens: Any = None,
        stream: Any = None,
    ) -> None:
        """Plans for prefix keys laid out by prefix_cu_seqlens and fresh keys laid out by
        q_cu_seqlens, or by fresh_cu_seqlens where that is given."""
        causal = _arguments.flag("causal", causal)
        self._rows = self._ext.plan_two_sources(
            q_cu_seqlens, prefix_cu_seqlens, fresh_cu_seqlens, causal, stream
        )

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
        finish = finish_lse = None
        if out is None:
            out, finish = _output.like(q, self._rows)
        if return_lse and lse is None:
            lse, finish_lse = _output.lse_like(q, self._rows)
        self._ext.run_two_sources(q, prefix_k, prefix_v, k, v, out, lse, stream)
        if finish is not None:
            out = finish(out)
        if not return_lse:
            return out
        return out, lse if finish_lse is None else finish_lse(lse)


class RaggedBlockCausalWrapper(RaggedPrefillBase):
    """Block-causal self-attention: a token in block b of its span (`block_size` tokens a block, from
    the span's start) attends every key of blocks 0..b of its span."""

    _kind = "block_causal"

    def __init__(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        block_size: int,
        max_num_segments: int | None = None,
        max_total_tokens: int | None = None,
        max_total_kv_tokens: int | None = None,
        device: Any = "cuda",
        accelerator_graph: bool = False,
        sm_scale: float | None = None,
        q_data_type: Any = "bfloat16",
        *,
        backend: Any = RaggedAttnBackend.AUTO,
        threads: int = 0,
        facts: str | None = None,
    ) -> None:
        self._block_size = _arguments.integer("block_size", block_size)
        super().__init__(
            num_qo_heads, num_kv_heads, head_dim, max_num_segments, max_total_tokens,
            max_total_kv_tokens, device, accelerator_graph, sm_scale, q_data_type, backend, threads,
            facts,
        )  # fmt: skip

    def plan(self, cu_seqlens: Any, *, stream: Any = None) -> None:
        """Plans one packed layout, as RaggedPrefillWrapper.plan."""
        plan = self._ext.plan_spans if isinstance(cu_seqlens, SegmentSpans) else self._ext.plan
        self._rows = plan(cu_seqlens, None, False, stream)


class _FlashInferRaggedPrefillBase(RaggedPrefillBase):
    """Pins the FlashInfer backend, which computes in the caller's workspace.

    kv_layout: "NHD", k and v as [tokens, num_kv_heads, head_dim]; or "HND", as [num_kv_heads, tokens,
    head_dim], read in place. backend: "auto" or "fa2"; "fa3" is not built and refused.
    """

    def __init__(
        self,
        workspace_buffer: Any,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        kv_layout: str = "NHD",
        backend: str = "auto",
        **kwargs: Any,
    ) -> None:
        if kv_layout not in ("NHD", "HND"):
            raise InvalidArgumentError(f"kv_layout must be 'NHD' or 'HND'; got {kv_layout!r}")
        if backend == "fa3":
            raise UnsupportedError(
                "backend fa3 is not built: of FlashInfer's kernels this library has fa2"
            )
        if backend not in ("auto", "fa2"):
            raise InvalidArgumentError(f"backend must be one of auto, fa2, fa3; got {backend!r}")
        given = _keywords(type(self), kwargs)
        # Past the sibling's constructor, which takes no workspace.
        RaggedPrefillBase.__init__(
            self, num_qo_heads, num_kv_heads, head_dim, given["max_num_segments"],
            given["max_total_tokens"], given["max_total_kv_tokens"], given["device"],
            given["accelerator_graph"], given["sm_scale"], given["q_data_type"],
            RaggedAttnBackend.FLASHINFER, given["threads"], given["facts"], workspace_buffer,
        )  # fmt: skip
        self._workspace_buffer = workspace_buffer
        self._heads_first = kv_layout == "HND"

    def run(self, q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        """As the sibling's, with k and v in the wrapper's kv_layout."""
        return super().run(q, _tokens_first(k, self._heads_first),
                           _tokens_first(v, self._heads_first), *args, **kwargs)  # fmt: skip


def _tokens_first(tensor: Any, heads_first: bool) -> Any:
    """[num_kv_heads, tokens, head_dim] as [tokens, num_kv_heads, head_dim]; a view where the array
    library has views."""
    return tensor.swapaxes(0, 1) if heads_first else tensor


_KEYWORDS: dict[str, Any] = {
    "max_num_segments": None,
    "max_total_tokens": None,
    "max_total_kv_tokens": None,
    "device": "cuda",
    "accelerator_graph": False,
    "sm_scale": None,
    "q_data_type": "bfloat16",
    "threads": 0,
    "facts": None,
}


def _keywords(wrapper: type, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in _KEYWORDS:
            raise TypeError(f"{wrapper.__name__} got an unexpected keyword argument {name!r}")
    return {**_KEYWORDS, **given}


class FlashInferRaggedPrefillWrapper(_FlashInferRaggedPrefillBase, RaggedPrefillWrapper):
    """Ragged self-attention through FlashInfer. `kwargs` are RaggedPrefillWrapper's."""


class FlashInferRaggedCrossPrefillWrapper(_FlashInferRaggedPrefillBase, RaggedCrossPrefillWrapper):
    """Ragged cross-attention through FlashInfer. `kwargs` are RaggedCrossPrefillWrapper's."""


class FlashInferPrefixedPrefillWrapper(_FlashInferRaggedPrefillBase, PrefixedPrefillWrapper):
    """Prefixed attention through FlashInfer. `kwargs` are PrefixedPrefillWrapper's."""
