"""One resource for each spec: labels to wrappers, eager and captured slots; plan a step, run by
label."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, field
from typing import Any

from ragged_attention import _arguments, _ext, _output
from ragged_attention.config import (
    RaggedAttentionConfig,
    RaggedBlockCausalAttentionSpec,
    RaggedCrossAttentionSpec,
    RaggedPrefixedAttentionSpec,
    Segment,
)
from ragged_attention.errors import InvalidArgumentError
from ragged_attention.pictures import Drawing

__all__ = [
    "BucketKey",
    "PlanContext",
    "RaggedAttentionCallable",
    "RaggedAttentionManager",
    "SlotLease",
]


@dataclass(frozen=True, order=True)
class BucketKey:
    """Which captured graph a step replays: `bs` requests, `num_tokens` tokens."""

    graph_walk: str = ""
    bs: int = 0
    num_tokens: int = 0
    extra: str = ""


@dataclass(frozen=True)
class SlotLease:
    """The right to plan into one captured slot: selects the wrapper of (bucket, slot, label)."""

    slot: int = 0
    bucket: BucketKey = field(default_factory=BucketKey)


@dataclass(frozen=True)
class PlanContext:
    """How a step is planned. lease: captured; None: eager, on `slot`. inherited_segments: those of
    the enclosing step, for a resource step that gives none."""

    lease: SlotLease | None = None
    slot: int = 0
    inherited_segments: tuple[Segment, ...] = ()


def _kind_of(spec: Any) -> str:
    if isinstance(spec, RaggedCrossAttentionSpec):
        return "cross"
    if isinstance(spec, RaggedPrefixedAttentionSpec):
        return "prefixed"
    if isinstance(spec, RaggedBlockCausalAttentionSpec):
        return "block_causal"
    return "self"


class RaggedAttentionManager:
    """Plans a resource's steps and runs them by label. A label's segments, in declared order, are its
    whole layout; a label that a step does not declare cannot be run under it.

    spec: one of the four specs of ragged_attention.config; it is copied, never changed.
    device: of the tensors. dtype: the activations', where the spec's config names none.
    num_shards: tensor times sequence parallel degree; 1 is no group.
    num_slots: steps that may be planned at once. threads: workers of a run on the CPU, 0 for all.

    ValueError: a config out of range, heads that do not divide over the shards, or no dtype.
    """

    def __init__(
        self,
        spec: Any,
        *,
        device: Any = "cuda",
        dtype: Any = None,
        num_shards: int = 1,
        num_slots: int = 2,
        threads: int = 0,
    ) -> None:
        check = _arguments
        declared = spec.config.dtype
        self.spec = spec
        self.kind = _kind_of(spec)
        self._ext = _ext.Manager(
            kind=self.kind,
            spec=spec,
            config_dtype=None if declared is None else check.dtype("config.dtype", declared),
            device=check.device("device", device),
            dtype=None if dtype is None else check.dtype("dtype", dtype),
            num_shards=check.integer("num_shards", num_shards),
            num_slots=check.integer("num_slots", num_slots),
            threads=check.integer("threads", threads),
        )
        config: RaggedAttentionConfig = copy.copy(spec.config)
        if num_shards != 1:
            config.shard(num_shards)
        config.dtype = self._ext.dtype
        self._config = config
        self._torch_dtype: Any = None
        self._rows: dict[str, int] = {}

    @property
    def resource_key(self) -> str:
        return str(self.spec.resource_key)

    @property
    def config(self) -> RaggedAttentionConfig:
        """This rank's config, its dtype resolved to "bf16", "fp16" or "fp32"."""
        return self._config

    def plan(
        self, step: Any, context: PlanContext | None = None, *, stream: Any = None
    ) -> None:
        """Plans every label (self, block-causal) or pair (cross, prefixed) of the step.

        A pending preplan is promoted if this step and lease are the ones that were preplanned, else
        refused (RuntimeError; the pending one stays). ValueError: a step of another kind's type, a
        pair whose labels list different requests, a count above a ceiling. On an error no label is
        planned.
        """
        self._rows = {}
        self._rows = self._ext.plan(step, context, stream)

    def preplan(self, step: Any, context: PlanContext, *, stream: Any = None) -> None:
        """Plans step N+1 while step N runs. Needs a lease, of another slot or bucket than the current
        step's; one preplan may be pending. RuntimeError otherwise."""
        self._ext.preplan(step, context, stream)

    def clear_preplan(self) -> None:
        """Drops a pending preplan; without one, nothing happens."""
        self._ext.clear_preplan()

    @property
    def preplan_pending(self) -> bool:
        return self._ext.preplan_pending

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        label: Any = "main",
        out: Any = None,
        lse: Any = None,
        *,
        return_lse: bool = False,
        stream: Any = None,
    ) -> Any:
        """Attends under the plan of `label` (for pairs, cross_label(q_label, kv_label)).

        Tensors as in RaggedPrefillWrapper.run; torch tensors of another dtype are cast to the
        config's. The label may also come first: run("main", q, k, v). KeyError names the label and
        the planned ones where this step did not plan it.
        """
        if isinstance(q, str):
            q, k, v, label = k, v, label, q
        q, k, v = self._cast(q), self._cast(k), self._cast(v)
        finish = finish_lse = None
        rows = self._rows.get(label, -1)
        if out is None:
            out, finish = _output.like(q, rows)
        if return_lse and lse is None:
            lse, finish_lse = _output.lse_like(q, rows)
        self._ext.run(label, q, k, v, out, lse, stream)
        if finish is not None:
            out = finish(out)
        if not return_lse:
            return out
        return out, lse if finish_lse is None else finish_lse(lse)

    def run_two_sources(
        self,
        label: str,
        q: Any,
        prefix_k: Any,
        prefix_v: Any,
        k: Any,
        v: Any,
        out: Any = None,
        lse: Any = None,
        *,
        stream: Any = None,
    ) -> Any:
        """Prefixed resources: prefix keys and values in tensors of their own."""
        finish = None
        if out is None:
            out, finish = _output.like(q, self._rows.get(label, -1))
        self._ext.run_two_sources(label, q, prefix_k, prefix_v, k, v, out, lse, stream)
        return out if finish is None else finish(out)

    def _cast(self, tensor: Any) -> Any:
        if not hasattr(tensor, "requires_grad"):
            return tensor
        if self._torch_dtype is None:
            names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
            self._torch_dtype = getattr(sys.modules["torch"], names[self._ext.dtype])
        return tensor if tensor.dtype == self._torch_dtype else tensor.to(self._torch_dtype)

    def num_segments(self, label: str = "main") -> int:
        """Declared segments of the label's last plan, empty ones included. KeyError without one."""
        return self._ext.num_segments(label)

    def planned_labels(self) -> list[str]:
        """Labels that this step planned, in declared order."""
        return self._ext.planned_labels()

    def explain(self, label: str = "main") -> str:
        """The plan of `label` for people."""
        return self._ext.explain(label)

    def to_json(self, label: str = "main", with_units: bool = False) -> str:
        """The plan of `label` as JSON."""
        return self._ext.to_json(label, with_units)

    def draw(self, label: str = "main", segments: int = 8) -> Drawing:
        """The plan of `label` as a picture, which a notebook shows."""
        return Drawing(self._ext.draw(label, _arguments.integer("segments", segments)))

    def callable(self, label: str) -> RaggedAttentionCallable:
        """This resource and one label, bound once."""
        return RaggedAttentionCallable(self, label)


class RaggedAttentionCallable:
    """One label of one resource, bound once: (q, k, v) -> out."""

    def __init__(self, resource: RaggedAttentionManager, label: str) -> None:
        if not hasattr(resource, "run"):
            raise InvalidArgumentError(f"resource must be a manager; got {resource!r}")
        self.resource = resource
        self.label = label

    def __call__(self, q: Any, k: Any, v: Any, out: Any = None, lse: Any = None) -> Any:
        """RaggedAttentionManager.run under this label."""
        return self.resource.run(q, k, v, self.label, out, lse)
