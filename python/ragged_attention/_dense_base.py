"""What every dense wrapper answers: the wheel, one plan, and runs of it."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ragged_attention import _arguments, _dense_layout
from ragged_attention._dense_layout import JoinIndex, Offsets, refuse_above
from ragged_attention.errors import (
    InvalidArgumentError,
    InvalidStateError,
    NotPlannedError,
    UnsupportedError,
    WrongTypeError,
)

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# Kinds of device that the wheel has kernels for.
_DEVICES = ("cuda",)


@dataclass(frozen=True)
class Kernel:
    """The wheel: its function, its version, and whether fp16 was left out of its build."""

    attend: Callable[..., Any]
    version: str
    without_fp16: bool


def _load() -> Kernel:
    try:
        attend = importlib.import_module("fa3_fwd_interface").flash_attn_varlen_func
    except (ImportError, OSError) as error:
        raise UnsupportedError(
            f"dense wrappers need the wheel fa3-fwd (pip install fa3-fwd), which cannot be imported: {error}"
        ) from error
    try:
        flags = importlib.import_module("fa3_fwd_config").CONFIG["build_flags"]
        version = importlib.metadata.version("fa3-fwd")
    except (ImportError, KeyError):
        flags, version = {}, "of unknown version"
    return Kernel(attend, version, bool(flags.get("FLASHATTENTION_DISABLE_FP16", False)))


class DenseBase:
    """One plan and runs of it. In capacity mode (accelerator_graph) what a run reads lies in buffers of
    the ceilings' sizes, which plans write into and never rebind."""

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
    ) -> None:
        check = _arguments
        self._heads = check.integer("num_qo_heads", num_qo_heads)
        self._kv_heads = check.integer("num_kv_heads", num_kv_heads)
        self._head_dim = check.integer("head_dim", head_dim)
        self._segments = check.optional_count("max_num_segments", max_num_segments)
        self._tokens = check.optional_count("max_total_tokens", max_total_tokens)
        kv_tokens = check.optional_count("max_total_kv_tokens", max_total_kv_tokens)
        self._kv_tokens = self._tokens if kv_tokens is None else kv_tokens
        self._device = torch.device(check.device("device", device))
        self._graph = check.flag("accelerator_graph", accelerator_graph)
        scale = check.optional_number("sm_scale", sm_scale)
        dtype = check.dtype("q_data_type", q_data_type)
        self._check_options()
        self._scale = self._head_dim**-0.5 if scale is None else scale
        self._kernel = _load()
        if dtype == "fp32" or (dtype == "fp16" and self._kernel.without_fp16):
            raise UnsupportedError(
                f"q_data_type: fa3-fwd {self._kernel.version} has no kernel for {dtype}"
            )
        self._dtype = _DTYPES[dtype]
        self._static: dict[str, torch.Tensor] = {}
        self._q: Offsets | None = None
        self._kv: Offsets | None = None
        self._join: JoinIndex | None = None
        self._causal = False
        # Of queries and keys; None where a run takes the rows that it gets for a bound.
        self._longest: tuple[int | None, int | None] | None = None

    def _check_options(self) -> None:
        if self._heads < 1 or self._kv_heads < 1 or self._heads % self._kv_heads:
            raise InvalidArgumentError(
                f"num_qo_heads must be a multiple of num_kv_heads; got {self._heads} and {self._kv_heads}"
            )
        if not 8 <= self._head_dim <= 256 or self._head_dim % 8:
            raise InvalidArgumentError(
                f"head_dim must be a multiple of 8 up to 256; got {self._head_dim}"
            )
        if self._device.type not in _DEVICES:
            raise UnsupportedError(f"device: fa3-fwd has no kernel for {self._device}")
        ceilings = {"max_num_segments": self._segments, "max_total_tokens": self._tokens}
        for name, ceiling in ceilings.items():
            if self._graph and ceiling is None:
                raise InvalidArgumentError(
                    f"{name} is required with accelerator_graph; none was given"
                )
            if ceiling is not None and ceiling < 1:
                raise InvalidArgumentError(f"{name} must be at least 1; got {ceiling}")

    def _offsets(self, name: str, values: Any, unit: str) -> Offsets:
        """Offsets within the ceilings of their side; in capacity mode padded to all segments."""
        made = _dense_layout.offsets(name, values, self._device)
        refuse_above(made.num_segments, "segments", "max_num_segments", self._segments)
        option, ceiling = "max_total_tokens", self._tokens
        if unit == "key tokens":
            option, ceiling = "max_total_kv_tokens", self._kv_tokens
        refuse_above(made.total, unit, option, ceiling)
        if not self._graph or self._segments is None:
            return made
        cu = _dense_layout.padded(made.cu_seqlens, self._segments + 1)
        return Offsets(cu, made.num_segments, made.total, made.lengths, varies=True)

    def _hold(self, name: str, made: torch.Tensor) -> torch.Tensor:
        """In capacity mode the tensor of this name from the first plan on, with the new values."""
        if not self._graph:
            return made
        if name not in self._static:
            self._static[name] = made.clone()
        return self._static[name].copy_(made)

    def _keep(self, q: Offsets, kv: Offsets, causal: Any, join: JoinIndex | None = None) -> None:
        """What runs read from now on. Nothing before it has changed the last plan."""
        causal = _arguments.flag("causal", causal)
        if self._graph and self._q is not None and causal != self._causal:
            raise InvalidStateError(
                f"a captured run keeps its mask: causal was {self._causal}; got {causal}"
            )
        self._causal = causal
        longest = q.longest, kv.longest
        known = None not in (*longest, q.rows, kv.rows)
        self._longest = longest if known else None
        held = {name: self._hold(f"join.{name}", x) for name, x in join.tensors().items()} if join else {}
        self._join = JoinIndex(**{"slots": None, "past": None, **held}) if held else None
        self._q = replace(q, cu_seqlens=self._hold("q", q.cu_seqlens))
        self._kv = self._q if kv is q else replace(kv, cu_seqlens=self._hold("kv", kv.cu_seqlens))

    @property
    def planned(self) -> bool:
        """True after the first plan."""
        return self._q is not None

    @property
    def num_segments(self) -> int:
        """Segments of the last plan, empty ones included."""
        return self._plan()[0].num_segments

    def explain(self) -> str:
        """The last plan for people."""
        q, kv = self._plan()
        count = [f"{x.total} tokens" if x.total is not None else "tokens on the device" for x in (q, kv)]
        return (
            f"fa3 (fa3-fwd {self._kernel.version}) on {self._device}: {q.num_segments} segments, "
            f"queries of {count[0]}, keys of {count[1]}, {'causal, ' if self._causal else ''}"
            f"{self._heads} heads over {self._kv_heads} of {self._head_dim}\n"
        )

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any = None,
        lse: Any = None,
        *,
        return_lse: bool = False,
        stream: Any = None,
    ) -> Any:
        """RaggedPrefillWrapper.run, on torch's current stream or on `stream`, one of torch's."""
        if self._join is not None:
            raise InvalidStateError("the last plan has keys of two sources; this run brings one")
        with torch.cuda.stream(stream):
            return self._attend(q, k, v, out, lse, return_lse)

    def _plan(self) -> tuple[Offsets, Offsets]:
        if self._q is None or self._kv is None:
            raise NotPlannedError("nothing is planned yet; call plan first")
        return self._q, self._kv

    def _check(self, name: str, x: Any, heads: int, rows: int | None) -> None:
        """x: [>= rows, heads, head_dim] of this wrapper."""
        if not isinstance(x, torch.Tensor):
            raise WrongTypeError(f"{name} must be a tensor of torch; got {type(x).__name__}")
        if x.ndim != 3 or x.shape[1:] != (heads, self._head_dim):
            raise InvalidArgumentError(
                f"{name} must be [tokens, {heads}, {self._head_dim}]; got shape {list(x.shape)}"
            )
        self._check_memory(name, x, self._dtype)
        if rows is not None and x.shape[0] < rows:
            raise InvalidArgumentError(f"{name} has {x.shape[0]} rows; the plan reads {rows}")

    def _check_memory(self, name: str, x: torch.Tensor, dtype: torch.dtype) -> None:
        if x.dtype != dtype:
            raise InvalidArgumentError(f"{name} has dtype {x.dtype}; the plan has {dtype}")
        if x.device != self._device:
            raise InvalidArgumentError(f"{name} is on {x.device}; the plan is for {self._device}")
        if x.requires_grad and torch.is_grad_enabled():
            raise InvalidArgumentError(
                f"{name} requires grad, and this library is for inference only: it has no backward "
                "pass; run under torch.no_grad() or torch.inference_mode()"
            )

    def _attend(self, q: Any, k: Any, v: Any, out: Any, lse: Any, return_lse: bool) -> Any:
        of_q, of_kv = self._plan()
        self._check("q", q, self._heads, of_q.total)
        self._check("k", k, self._kv_heads, of_kv.total)
        self._check("v", v, self._kv_heads, of_kv.total)
        rows = q.shape[0]
        if self._graph:
            refuse_above(rows, "rows of q", "max_total_tokens", self._tokens)
        if out is not None:
            self._check("out", out, self._heads, rows)
        if lse is not None:
            self._check_memory("lse", lse, torch.float32)
            if lse.ndim != 2 or lse.shape[0] < rows or lse.shape[1] != self._heads:
                raise InvalidArgumentError(
                    f"lse must be [{rows}, {self._heads}]; got shape {list(lse.shape)}"
                )
        # Rows past the plan are cut off where the host knows where it ends, else covered afterwards.
        live = rows if of_q.rows is None else of_q.rows
        keys = k.shape[0] if of_kv.rows is None else of_kv.rows
        if live == 0 or keys == 0:
            made, made_lse = q.new_zeros(live, *q.shape[1:]), None
        else:
            longest = self._longest
            made, made_lse = self._kernel.attend(
                q[:live], k[:keys], v[:keys], of_q.cu_seqlens, of_kv.cu_seqlens,
                live if longest is None else longest[0], keys if longest is None else longest[1],
                softmax_scale=self._scale, causal=self._causal, return_attn_probs=True,
            )  # fmt: skip
        past = None
        if of_q.rows is None:
            past = torch.arange(live, device=q.device) >= of_q.cu_seqlens[-1]
        result = _placed(made, out, rows, past, 0)
        if lse is not None or return_lse:
            if made_lse is None:
                made_lse = q.new_full((self._heads, live), float("-inf"), dtype=torch.float32)
            lse = _placed(made_lse.transpose(0, 1), lse, rows, past, float("-inf"))
        return (result, lse) if return_lse else result


def _placed(made: Any, out: Any, rows: int, past: Any, filler: float) -> Any:
    """`made`, the plan's rows, in an output of `rows` rows: the caller's keeps its rows past the plan, one
    of ours has the filler there."""
    hidden = None if past is None else past.view(-1, *[1] * (made.ndim - 1))
    if out is not None:
        into = out[: made.shape[0]]
        into.copy_(made if hidden is None else torch.where(hidden, into, made))
        return out
    if hidden is not None:
        return made.masked_fill(hidden, filler)
    if made.shape[0] == rows:
        return made.contiguous()
    result = made.new_full((rows, *made.shape[1:]), filler)
    result[: made.shape[0]] = made
    return result
