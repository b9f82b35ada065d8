"""Drop-ins: signatures, values, and what is refused by name."""

import inspect

import numpy as np
import pytest
import ragged_attention as ra
from expected import attention, offsets

torch = pytest.importorskip("torch")
from ragged_attention.varlen import (  # noqa: E402
    AuxRequest,
    flash_attn_varlen_func,
    padded_attention,
    varlen_attn,
)

Q_LAYOUT, K_LAYOUT = (torch.tensor(offsets(x)) for x in ([3, 5], [6, 9]))


def tensors(rows=8, kv_rows=15, dim=24):
    return torch.randn(rows, 4, dim), torch.randn(kv_rows, 2, dim), torch.randn(kv_rows, 2, dim)


def close(out, want):
    np.testing.assert_allclose(out.numpy(), want, atol=2e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attn_varlen_func(causal):
    q, k, v = tensors()
    want, want_lse = attention(q, k, v, Q_LAYOUT, K_LAYOUT, causal, sm_scale=0.3)
    arguments = (q, k, v, Q_LAYOUT, K_LAYOUT, 5, 9)
    close(flash_attn_varlen_func(*arguments, softmax_scale=0.3, causal=causal), want)
    out, lse, nothing = flash_attn_varlen_func(
        *arguments, 0.0, 0.3, causal, return_attn_probs=True
    )
    close(out, want)
    close(lse, want_lse.T)
    assert nothing is None


@pytest.mark.parametrize(
    ("argument", "value"),
    [("dropout_p", 0.1), ("window_size", (4, 0)), ("softcap", 30.0), ("alibi_slopes", torch.ones(4)),
     ("block_table", torch.zeros(2, 2))],
)  # fmt: skip
def test_flash_attn_varlen_func_refuses_by_name(argument, value):
    q, k, v = tensors()
    with pytest.raises(ra.UnsupportedError, match=f"flash_attn_varlen_func: {argument} must be"):
        flash_attn_varlen_func(q, k, v, Q_LAYOUT, K_LAYOUT, 5, 9, **{argument: value})


def test_flash_attn_varlen_func_has_its_signature():
    """flash_attn 2.8's, of which 2.7's and 2.6's are the same."""
    names = list(inspect.signature(flash_attn_varlen_func).parameters)
    assert names == [
        "q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "dropout_p",
        "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic",
        "return_attn_probs", "block_table",
    ]  # fmt: skip


def test_varlen_attn_has_torchs_signature():
    theirs = pytest.importorskip("torch.nn.attention.varlen").varlen_attn
    ours = inspect.signature(varlen_attn).parameters
    for name, parameter in inspect.signature(theirs).parameters.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default)
    assert list(ours) == list(inspect.signature(theirs).parameters)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0)])
def test_varlen_attn(window):
    q, k, v = tensors()
    want, want_lse = attention(q, k, v, Q_LAYOUT, K_LAYOUT, window == (-1, 0))
    arguments = (q, k, v, Q_LAYOUT, K_LAYOUT, 5, 9)
    close(varlen_attn(*arguments, window_size=window), want)
    out, lse = varlen_attn(*arguments, return_aux=AuxRequest(lse=True), window_size=window)
    close(out, want)
    close(lse, want_lse)
    with pytest.raises(ra.UnsupportedError, match="window_size must be"):
        varlen_attn(*arguments, window_size=(3, 3))


def test_drop_ins_compile_whole():
    def layer(q, k, v):
        return flash_attn_varlen_func(q + 0, k, v, Q_LAYOUT, K_LAYOUT, 5, 9, causal=True) * 2

    torch._dynamo.reset()
    q, k, v = tensors()
    with torch.inference_mode():
        fast = torch.compile(layer, fullgraph=True, backend="aot_eager")(q, k, v)
        torch.testing.assert_close(fast, layer(q, k, v))


MASKS = {
    "right": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]],
    "left": [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 0, 1]],
    "holes": [[1, 0, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 1, 1, 1]],
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, *MASKS])
def test_padded_attention(mask, causal):
    q, k, v = (torch.randn(3, 5, h, 24) for h in (4, 2, 2))
    real = torch.ones(3, 5, dtype=torch.bool) if mask is None else torch.tensor(MASKS[mask]) == 1
    for x in (q, k, v):
        x[~real] = float("nan")
    out = padded_attention(q, k, v, None if mask is None else real, causal=causal)
    for b in range(3):
        n = int(real[b].sum())
        want, _ = attention(*(x[b][real[b]] for x in (q, k, v)), [0, n], [0, n], causal)
        close(out[b][real[b]], want)
    assert torch.all(out[~real] == 0)


@pytest.mark.parametrize("mask", ["right", "left", "holes"])
@pytest.mark.parametrize("causal", [False, True])
def test_padded_cross_attention(mask, causal):
    q = torch.randn(3, 2, 4, 24)
    k, v = torch.randn(3, 5, 2, 24), torch.randn(3, 5, 2, 24)
    real = torch.tensor(MASKS[mask])
    out = padded_attention(q, k, v, kv_mask=real, causal=causal)
    for b in range(3):
        keys = real[b] == 1
        n = int(keys.sum())
        close(out[b], attention(q[b], k[b][keys], v[b][keys], [0, 2], [0, n], causal)[0])


def test_padded_attention_refuses_masks_of_another_shape():
    q = torch.randn(3, 5, 4, 24)
    with pytest.raises(ValueError, match=r"mask must be \[batch, length\] = \[3, 5\]; got \[3, 4\]"):
        padded_attention(q, q, q, torch.ones(3, 4))
    with pytest.raises(ValueError, match="q and k must be"):
        padded_attention(q[0], q[0], q[0])
