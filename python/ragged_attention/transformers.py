"""transformers: `attn_implementation="ragged"`.

    import ragged_attention.transformers                    # registers it
    model = AutoModel.from_pretrained(..., attn_implementation="ragged")

Padded batches are computed on their real tokens alone; their padded rows are 0. Models that hand over
`cu_seqlens` to implementations of the name "flash" (vision towers of the Qwen-VL family) hand it over to
"ragged_flash", the same function, in one call for the whole batch; under "ragged" they call once for
each image or window. `use(model)` sets it for a model that is built already. Inference only; masks that
are not padding, causal, or both, are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    bidirectional_mask_function,
    causal_mask_function,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ragged_attention import varlen
from ragged_attention.errors import UnsupportedError

__all__ = ["ragged_attention_forward", "use"]

_NAME = "attn_implementation='ragged'"
# What models hand over to be computed, and this library does not.
_REFUSED = ("sliding_window", "softcap", "s_aux", "head_mask", "position_bias", "attention_chunk_size")


def ragged_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention interface. query: [batch, heads, q_len, head_dim]; key, value: [batch,
    kv_heads, kv_len, head_dim]; attention_mask: [batch, kv_len] of padding, or None. Returns [batch,
    q_len, heads, head_dim], and no weights."""
    varlen.refuse_unless(_NAME, "dropout", dropout, 0.0, 0)
    for name in _REFUSED:
        varlen.refuse_unless(_NAME, name, kwargs.get(name), None)
    causal = bool(getattr(module, "is_causal", True)) if is_causal is None else is_causal
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    if cu_seq_lens_q is not None and cu_seq_lens_k is not None:
        packed_q, packed_k, packed_v = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
        packed = varlen.flash_attn_varlen_func(
            packed_q, packed_k, packed_v, cu_seq_lens_q, cu_seq_lens_k, 0, 0,
            softmax_scale=scaling, causal=causal,
        )  # fmt: skip
        return packed.view(q.shape), None
    if attention_mask is not None and attention_mask.ndim != 2:
        raise UnsupportedError(
            f"{_NAME}: attention_mask must be [batch, kv_len] of padding here; got shape "
            f"{list(attention_mask.shape)}, from {type(module).__name__}"
        )
    masks: dict[str, Any] = {"mask": attention_mask}
    if attention_mask is not None and q.shape[1] != k.shape[1]:
        masks = {"kv_mask": attention_mask}
    out = varlen.padded_attention(q, k, v, causal=causal, sm_scale=scaling, **masks)
    return out, None


def _padding_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    **kwargs: Any,
) -> torch.Tensor | None:
    """The padding of a batch as it came; other masks are the attention's own (causal) or refused."""
    del batch_size, q_length, q_offset, kv_offset, kwargs
    if mask_function not in (causal_mask_function, bidirectional_mask_function):
        raise UnsupportedError(
            f"{_NAME}: masks must be causal or full, with padding; got "
            f"{getattr(mask_function, '__qualname__', mask_function)} (a window, chunk, or packed batch)"
        )
    if attention_mask is None:
        return None
    return attention_mask[:, -kv_length:]


def use(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Makes a model attend through this library, its vision towers in one call for the whole batch."""
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(config, transformers.PreTrainedConfig):
            config._attn_implementation = "ragged_flash"
    return model


for _implementation in ("ragged", "ragged_flash"):
    ALL_ATTENTION_FUNCTIONS.register(_implementation, ragged_attention_forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_implementation, _padding_mask)
