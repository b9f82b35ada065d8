"""CUDA tensors through the same wrappers: run where torch finds a GPU and the build has a backend for it."""

import json

import pytest
import ragged_attention as ra
from expected import attention, offsets

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(not {"sm80", "sm90"} & set(ra.built_backends()), reason="no GPU backend"),
]
LENGTHS = [3, 0, 170, 64]
LAYOUT = offsets(LENGTHS)
TOKENS = int(LAYOUT[-1])
TOLERANCE = 2e-2


def tensors(rows=TOKENS, kv_rows=TOKENS, dtype=torch.bfloat16, dim=64):
    make = lambda n, heads: torch.randn(n, heads, dim, device="cuda").to(dtype)  # noqa: E731
    return make(rows, 8), make(kv_rows, 2), make(kv_rows, 2)


def wrapper(kind=ra.RaggedPrefillWrapper, **options):
    return kind(8, 2, 64, **options)


def close(out, want):
    assert out.is_cuda
    torch.testing.assert_close(out.double().cpu(), torch.tensor(want), atol=TOLERANCE, rtol=0)


def on_host(*xs):
    return [x.double().cpu().numpy() for x in xs]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("place", ["host", "device"])
def test_self(causal, place):
    q, k, v = tensors()
    attend = wrapper()  # defaults: "cuda", bf16
    attend.plan(torch.tensor(LAYOUT, device="cpu" if place == "host" else "cuda"), causal)
    out, lse = attend.run(q, k, v, return_lse=True)
    want, want_lse = attention(*on_host(q, k, v), LAYOUT, LAYOUT, causal)
    attend.check()
    close(out, want)
    close(lse, want_lse)
    assert json.loads(attend.to_json())["backend"] in ("sm80", "sm90")


@pytest.mark.parametrize("place", ["host", "device"])
def test_rows_past_the_plan_are_zero(place):
    q, k, v = tensors(TOKENS + 9, TOKENS + 9)
    attend = wrapper()
    attend.plan(torch.tensor(LAYOUT, device="cpu" if place == "host" else "cuda"))
    assert torch.all(attend.run(q, k, v)[TOKENS:] == 0)


def test_work_joins_torchs_current_stream():
    attend, stream = wrapper(), torch.cuda.Stream()
    want = None
    for _ in range(3):
        with torch.cuda.stream(stream):
            q, k, v = tensors()
            torch.cuda._sleep(20_000_000)
            q.mul_(2)
            attend.plan(LAYOUT)
            out = attend.run(q, k, v)
        stream.synchronize()
        want, _ = attention(*on_host(q, k, v), LAYOUT, LAYOUT)
        close(out, want)


def test_a_captured_graph_replays_other_layouts():
    attend = wrapper(max_num_segments=4, max_total_tokens=TOKENS, accelerator_graph=True)
    q, k, v = tensors()
    out = torch.zeros_like(q)
    attend.plan(LAYOUT)
    attend.run(q, k, v, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attend.run(q, k, v, out)
    for lengths in ([TOKENS], [5, 100, 7], LENGTHS):
        layout = offsets(lengths)
        attend.plan(layout)
        graph.replay()
        rows = int(layout[-1])
        want, _ = attention(*on_host(q, k, v), layout, layout)
        close(out[:rows], want[:rows])


def test_operators_and_drop_ins():
    from ragged_attention.varlen import flash_attn_varlen_func

    q, k, v = tensors()
    cu = torch.tensor(LAYOUT, device="cuda")
    want, _ = attention(*on_host(q, k, v), LAYOUT, LAYOUT, True)
    close(flash_attn_varlen_func(q, k, v, cu, cu, 170, 170, causal=True), want)
    close(torch.ops.ragged_attention.self_attention(q, k, v, cu, True), want)


def test_tensors_of_another_device_are_refused():
    q, k, v = tensors()
    attend = wrapper()
    attend.plan(LAYOUT)
    with pytest.raises(ValueError, match="q is on cpu; the plan is for cuda:0"):
        attend.run(q.cpu(), k, v)
