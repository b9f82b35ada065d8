"""What a model declares about its attention, once at load, and which segments a step brings.

Pure Python: importing this loads no kernel, no device and no torch, so that a model can declare
anywhere. `resource_class` of a spec names what builds it, and loads that only then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from ragged_attention.errors import InvalidArgumentError

if TYPE_CHECKING:
    from ragged_attention.manager import RaggedAttentionManager

__all__ = [
    "AttentionStep",
    "RaggedAttentionConfig",
    "RaggedAttentionSpec",
    "RaggedAttnBackend",
    "RaggedBlockCausalAttentionSpec",
    "RaggedCrossAttentionSpec",
    "RaggedCrossAttentionStep",
    "RaggedPrefixedAttentionSpec",
    "RaggedPrefixedAttentionStep",
    "ResourceStep",
    "Segment",
    "cross_label",
]


class RaggedAttnBackend(Enum):
    """Which backend serves. AUTO takes the best one that can; any other value pins that backend, and
    a plan that it cannot serve is refused with its reason."""

    AUTO = "auto"
    FLASHINFER = "flashinfer"
    REFERENCE = "reference"
    CPU = "cpu"
    SM80 = "sm80"
    SM90 = "sm90"
    CUDNN = "cudnn"


_OVERRIDABLE = ("flashinfer_backend", "max_segments_per_request", "max_tokens_per_request")
_FLASHINFER_BACKENDS = ("auto", "fa2", "fa3")


@dataclass
class RaggedAttentionConfig:
    """Varlen attention over segments packed into one forward, with no KV cache: the whole layout is
    this step's, and nothing carries to the next.

    Head counts are those before sharding. `sm_scale` is by default `head_dim ** -0.5` on the true
    head dim. `max_segments_per_request` and `max_tokens_per_request` size captured graphs.
    `flashinfer_backend` is "auto", "fa2" or "fa3". `dtype` is the activations' (a torch or NumPy
    dtype, or its name: "bf16", "fp16", "fp32"); None takes the engine's.
    """

    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    sm_scale: float | None = None
    max_segments_per_request: int = 1
    max_tokens_per_request: int | None = None
    backend: RaggedAttnBackend = RaggedAttnBackend.AUTO
    flashinfer_backend: str = "auto"
    dtype: Any = None
    # (num_qo_heads, num_kv_heads) as declared, kept by the first shard().
    _unsharded: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A head_dim below 1 has no scale; building the resource refuses it by name.
        if self.sm_scale is None and self.head_dim > 0:
            self.sm_scale = self.head_dim**-0.5

    def max_segments_for(self, bs: int) -> int:
        """`bs` * max_segments_per_request: segments of a batch of `bs` requests, at most."""
        _require_batch(bs)
        return bs * self.max_segments_per_request

    def max_tokens_for(self, bs: int) -> int | None:
        """`bs` * max_tokens_per_request, or None where no such ceiling was declared."""
        if self.max_tokens_per_request is None:
            return None
        _require_batch(bs)
        return bs * self.max_tokens_per_request

    def shard(self, num_shards: int) -> None:
        """Narrows the head counts to one rank's slice, always from the counts as declared, so that
        twice is the same as once. With at least as many shards as key heads, every rank keeps one
        replicated key head. ValueError where heads do not divide, naming the counts."""
        if num_shards < 1:
            raise InvalidArgumentError(f"num_shards must be at least 1; got {num_shards}")
        qo, kv = self._unsharded or (self.num_qo_heads, self.num_kv_heads)
        if qo % num_shards != 0:
            raise InvalidArgumentError(
                f"num_qo_heads = {qo} does not divide over {num_shards} shards"
            )
        # A rank's query heads must belong to its own key heads, also where one is replicated.
        replicate = num_shards >= kv
        if num_shards % kv != 0 if replicate else kv % num_shards != 0:
            raise InvalidArgumentError(
                f"num_kv_heads = {kv} does not divide over {num_shards} shards"
            )
        self._unsharded = (qo, kv)
        self.num_qo_heads = qo // num_shards
        self.num_kv_heads = 1 if replicate else kv // num_shards

    def override_field(self, key: str, value: str | int) -> None:
        """Applies one deployment override. Exactly three keys exist: "flashinfer_backend",
        "max_segments_per_request" and "max_tokens_per_request"; ValueError names any other."""
        if key == "flashinfer_backend":
            if value not in _FLASHINFER_BACKENDS:
                raise InvalidArgumentError(
                    f"flashinfer_backend must be one of auto, fa2, fa3; got '{value}'"
                )
        elif key in _OVERRIDABLE:
            text = str(value)
            if not text.isdecimal() or int(text) < 1:
                raise InvalidArgumentError(
                    f"{key} must be a whole number of at least 1; got '{value}'"
                )
            value = int(text)
        else:
            raise InvalidArgumentError(
                "a deployment may override flashinfer_backend, max_segments_per_request and "
                f"max_tokens_per_request; got '{key}'"
            )
        setattr(self, key, value)


def _require_batch(bs: int) -> None:
    if bs < 0:
        raise InvalidArgumentError(f"bs must be at least 0; got {bs}")


@dataclass(frozen=True)
class Segment:
    """One span of one request in the packed layout that its label names. `span` is in tokens; 0 is a
    segment with no rows."""

    request_id: str
    label: str = "main"
    span: int = 0


@dataclass
class ResourceStep:
    """What a step says to one resource. Without segments it takes those of the step around it."""

    segments: tuple[Segment, ...] | None = None


@dataclass
class AttentionStep(ResourceStep):
    """A step of self-attention, or of block-causal attention (with causal=False)."""

    causal: bool = False


@dataclass
class RaggedCrossAttentionStep(ResourceStep):
    """A step of cross-attention: which spans attend which. Each (q_label, kv_label) of `pairs` is
    one attention: every request's q_label span attends that request's kv_label span, so both labels
    list the same requests in the same order. Never causal."""

    pairs: tuple[tuple[str, str], ...] = ()


@dataclass
class RaggedPrefixedAttentionStep(ResourceStep):
    """A step of prefixed attention: in each pair (q_label, prefix_label), query segment i attends
    prefix segment i followed by its own tokens. With two_sources, a run takes prefix keys and fresh
    keys in tensors of their own."""

    pairs: tuple[tuple[str, str], ...] = ()
    causal: bool = False
    two_sources: bool = False


def cross_label(q_label: str, kv_label: str) -> str:
    """The label of the plan that a pair runs under: "q<-kv"."""
    return f"{q_label}<-{kv_label}"


@dataclass
class _RaggedSpecBase:
    """A key, the nodes that use the resource, and what it computes."""

    resource_key: str
    nodes: set[str]
    config: RaggedAttentionConfig

    @property
    def resource_class(self) -> type[RaggedAttentionManager]:
        """What builds this spec. Imported inside the property, so that declaring a resource stays
        free of the manager and its kernels."""
        from ragged_attention.manager import RaggedAttentionManager

        return RaggedAttentionManager


@dataclass
class RaggedAttentionSpec(_RaggedSpecBase):
    """Self-attention within each declared span (AttentionStep)."""


@dataclass
class RaggedCrossAttentionSpec(_RaggedSpecBase):
    """Cross-attention between two spans of each request (RaggedCrossAttentionStep); each pair runs
    through RaggedAttentionCallable(resource, cross_label(q_label, kv_label))."""


@dataclass
class RaggedBlockCausalAttentionSpec(_RaggedSpecBase):
    """Block-causal self-attention within each declared span: a token in block b of its span
    (`block_size` tokens a block, from the span's start) attends every key of blocks 0..b. Declared
    with AttentionStep(causal=False): the block structure is the whole mask."""

    block_size: int


@dataclass
class RaggedPrefixedAttentionSpec(_RaggedSpecBase):
    """Attention over a frozen prefix followed by the query's own tokens
    (RaggedPrefixedAttentionStep)."""
