"""Attention over packed sequences of different lengths, with no padding and no KV cache.

    import ragged_attention as ra

    attention = ra.RaggedPrefillWrapper(16, 16, 72, device="cpu", q_data_type="fp32")
    attention.plan([0, 729, 1458, 1700])  # three images, packed end to end
    out = attention.run(q, k, v)          # once a layer; [1700, 16, 72]
    print(attention.explain())            # which backend, and why no other

Tensors are those of torch, JAX, NumPy or CuPy, or of anything else that speaks DLPack; none of these
packages is needed to import this one. Nothing here loads a kernel before it is used:
`ragged_attention.config` declares, `ragged_attention.wrappers` plans and runs,
`ragged_attention.manager` serves an engine's steps by label; with torch, `ragged_attention.torch_ops` has
operators for torch.compile, `ragged_attention.varlen` the functions of other packages, and
`ragged_attention.transformers` the attention of transformers' models, `ragged_attention.dense_wrappers`
wrappers of the same shape over FlashAttention 3's wheel. Errors are of the usual kinds
(ValueError, TypeError, RuntimeError, KeyError) and all of them `ragged_attention.Error`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Where each public name lives. Modules load when a name of theirs is first asked for.
_HOMES = {
    "config": (
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
    ),
    "errors": (
        "DeviceError",
        "Error",
        "InternalError",
        "InvalidArgumentError",
        "InvalidStateError",
        "NotPlannedError",
        "OutOfMemoryError",
        "OutOfRangeError",
        "UnsupportedError",
        "WrongTypeError",
    ),
    "manager": (
        "BucketKey",
        "PlanContext",
        "RaggedAttentionCallable",
        "RaggedAttentionManager",
        "SlotLease",
    ),
    "pictures": ("Drawing",),
    "wrappers": (
        "FlashInferPrefixedPrefillWrapper",
        "FlashInferRaggedCrossPrefillWrapper",
        "FlashInferRaggedPrefillWrapper",
        "PrefixedPrefillWrapper",
        "RaggedBlockCausalWrapper",
        "RaggedCrossPrefillWrapper",
        "RaggedPrefillWrapper",
        "SegmentSpans",
        "padded_head_dim",
    ),
    "_info": ("built_backends", "device_facts"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"config", "errors", "manager", "pictures", "wrappers"}

__all__ = sorted([*_HOME_OF, "__version__"])

if TYPE_CHECKING:
    from ragged_attention._info import built_backends as built_backends
    from ragged_attention._info import device_facts as device_facts
    from ragged_attention.config import *  # noqa: F403
    from ragged_attention.errors import *  # noqa: F403
    from ragged_attention.manager import *  # noqa: F403
    from ragged_attention.pictures import *  # noqa: F403
    from ragged_attention.wrappers import *  # noqa: F403

    __version__: str


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name == "__version__":
        value = importlib.import_module(f"{__name__}._ext").__version__
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
