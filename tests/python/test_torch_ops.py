"""Custom operators: values, fake kernels, one compilation for many layouts, and no gradients."""

import numpy as np
import pytest
import ragged_attention as ra
from expected import attention, offsets

torch = pytest.importorskip("torch")
import torch._dynamo.testing  # noqa: E402
from ragged_attention import torch_ops  # noqa: E402

ops = torch.ops.ragged_attention


def tensors(*rows, heads=(4, 2, 2), dim=32):
    return [torch.randn(n, h, dim) for n, h in zip(rows, heads, strict=True)]


def layout(*lengths):
    return torch.tensor(offsets(lengths))


def close(out, want):
    np.testing.assert_allclose(out.numpy(), want, atol=2e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_values(causal):
    q_layout, kv_layout = layout(3, 5), layout(6, 9)
    q, k, v = tensors(8, 8, 8)
    close(ops.self_attention(q, k, v, q_layout, causal, 0.2),
          attention(q, k, v, q_layout, q_layout, causal, sm_scale=0.2)[0])
    close(ops.block_causal_attention(q, k, v, q_layout, 2),
          attention(q, k, v, q_layout, q_layout, block_size=2)[0])
    q, k, v = tensors(8, 15, 15)
    close(ops.prefixed_attention(q, k, v, q_layout, kv_layout, causal),
          attention(q, k, v, q_layout, kv_layout, causal)[0])
    close(ops.cross_attention(q, k, v, q_layout, kv_layout),
          attention(q, k, v, q_layout, kv_layout)[0])
    out, lse = ops.varlen_attention(q, k, v, q_layout, kv_layout, causal, None)
    want, want_lse = attention(q, k, v, q_layout, kv_layout, causal)
    close(out, want)
    close(lse, want_lse)


def test_operators_keep_torchs_rules():
    q, k, v = tensors(8, 8, 8)
    checks = ["test_schema", "test_faketensor"]
    cu = layout(3, 5)
    for operator, arguments in [
        (torch_ops.self_attention, (q, k, v, cu)),
        (torch_ops.cross_attention, (q, k, v, cu, cu)),
        (torch_ops.block_causal_attention, (q, k, v, cu, 2)),
        (torch_ops.prefixed_attention, (q, k, v, cu, cu)),
        (torch_ops.varlen_attention, (q, k, v, cu, cu, True, None)),
    ]:
        torch.library.opcheck(operator, arguments, test_utils=checks)


def compiled(function):
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, dynamic=True, backend=counter), counter


def fifty_layouts():
    random = np.random.default_rng(3)
    return [random.integers(0, 20, random.integers(2, 9)) + (np.arange(1) + 1) for _ in range(50)]


def test_fifty_layouts_compile_once():
    def layer(x, cu):
        q, k, v = (x * 2).unflatten(-1, (3, 2, 16)).unbind(1)
        return ops.self_attention(q, k, v, cu).flatten(1) + 1

    fast, counter = compiled(layer)
    with torch.inference_mode():
        for lengths in fifty_layouts():
            x = torch.randn(int(lengths.sum()), 96)
            cu = layout(*lengths)
            torch.testing.assert_close(fast(x, cu), layer(x, cu))
    assert counter.frame_count == 1


def test_a_planned_wrapper_in_a_compiled_region():
    wrapper = ra.RaggedPrefillWrapper(2, 2, 16, device="cpu", q_data_type="fp32")
    attend = torch_ops.planned(wrapper)

    def layer(x):
        q, k, v = x.unflatten(-1, (3, 2, 16)).unbind(1)
        return attend(q, k, v).flatten(1) * 2

    fast, counter = compiled(layer)
    with torch.inference_mode():
        for lengths in fifty_layouts():
            x = torch.randn(int(lengths.sum()), 96)
            wrapper.plan(layout(*lengths))
            torch.testing.assert_close(fast(x), layer(x))
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore:Error detected in")  # of anomaly mode, which says where
def test_gradients_are_refused_by_name():
    def loss(q, cu):
        return ops.self_attention(q, k, v, cu).sum()

    q, k, v = tensors(4, 4, 4)
    q.requires_grad_(True)
    cu = layout(4)
    with pytest.raises(RuntimeError, match="inference only"):
        loss(q, cu).backward()
    torch._dynamo.reset()
    with pytest.raises(Exception, match="inference only"):
        torch.compile(loss, backend="aot_eager")(q, cu).backward()
    with torch.no_grad():
        loss(q, cu)


def test_refusals_pass_through_operators():
    q, k, v = tensors(4, 4, 4)
    with pytest.raises(ValueError, match="q has 4 rows; the plan reads 5"):
        ops.self_attention(q, k, v, layout(5))
    with pytest.raises(ValueError, match=r"q and k must be \[tokens, heads, head_dim\]"):
        ops.self_attention(q[0], k, v, layout(4))


def test_wrappers_are_kept_and_bounded():
    torch_ops._kept.wrappers.clear()
    q, k, v = tensors(4, 4, 4)
    cu = layout(4)
    for _ in range(3):
        ops.self_attention(q, k, v, cu)
    assert len(torch_ops._kept.wrappers) == 1
    for i in range(torch_ops._MOST_WRAPPERS + 5):
        ops.self_attention(q, k, v, cu, False, 0.1 + i)
    assert len(torch_ops._kept.wrappers) == torch_ops._MOST_WRAPPERS
