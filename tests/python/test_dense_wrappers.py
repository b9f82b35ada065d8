"""Wrappers over the wheel fa3-fwd: with a stand-in on the CPU everywhere, with the wheel itself where it is
installed and a GPU is there."""

import importlib.util
import sys

import pytest
import ragged_attention as ra
from expected import attention, offsets

torch = pytest.importorskip("torch")
import fa3_stand_in  # noqa: E402
from ragged_attention import _dense_base, dense_wrappers  # noqa: E402

HAS_WHEEL = importlib.util.find_spec("fa3_fwd_interface") is not None and torch.cuda.is_available()
PLACES = ["cpu", pytest.param("cuda", marks=[
    pytest.mark.gpu, pytest.mark.skipif(not HAS_WHEEL, reason="no fa3-fwd on a GPU")])]
FRESH, PREFIX = [3, 0, 40, 5], [33, 7, 0, 129]
Q, P = offsets(FRESH), offsets(PREFIX)
KV = Q + P
HEADS, KV_HEADS, DIM = 4, 2, 72
PAGE = 16


@pytest.fixture(params=PLACES)
def place(request, monkeypatch):
    if request.param == "cpu":
        monkeypatch.setitem(sys.modules, "fa3_fwd_interface", fa3_stand_in.module())
        monkeypatch.setitem(sys.modules, "fa3_fwd_config", None)
        monkeypatch.setattr(_dense_base, "_DEVICES", ("cpu", "cuda"))
    torch.manual_seed(5)
    return request.param


def rows(place, count, heads=KV_HEADS):
    return torch.randn(count, heads, DIM).to(place, torch.bfloat16)


def make(kind, place, **options):
    return kind(HEADS, KV_HEADS, DIM, device=place, **options)


def host(x):
    return x.double().cpu().numpy()


def close(result, want, *, count=None):
    for got, expected in zip(result, want, strict=True):
        torch.testing.assert_close(got[:count].double().cpu(), torch.tensor(expected)[:count], atol=3e-2,
                                   rtol=0)


def joined(prefix, fresh, prefix_offsets=P, fresh_offsets=Q):
    parts = []
    for i in range(len(fresh_offsets) - 1):
        parts += [prefix[prefix_offsets[i]:prefix_offsets[i + 1]],
                  fresh[fresh_offsets[i]:fresh_offsets[i + 1]]]
    return torch.cat(parts)


def paged(packed, prefix_offsets=P, spare=3):
    """The packed rows in scattered pages of a cache whose other slots are NaN, and its table, in which
    entries behind a prefix are no page at all."""
    counts = [-(-int(n) // PAGE) for n in (prefix_offsets[1:] - prefix_offsets[:-1])]
    order = torch.randperm(sum(counts) + spare).tolist()
    cache = torch.full((sum(counts) + spare, 2, PAGE, *packed.shape[1:]), float("nan"),
                       dtype=packed.dtype, device=packed.device)
    table = torch.full((len(counts), max(counts)), -1, dtype=torch.int32)
    for i, count in enumerate(counts):
        for j in range(count):
            table[i, j] = page = order.pop()
            first = int(prefix_offsets[i]) + j * PAGE
            some = packed[first:min(first + PAGE, int(prefix_offsets[i + 1]))]
            cache[page, 0, :len(some)] = some
    return cache[:, 0], table  # every other block of memory: read by strides


@pytest.mark.parametrize("causal", [False, True])
def test_self(place, causal):
    wrapper = make(dense_wrappers.DenseRaggedPrefillWrapper, place, sm_scale=0.2)
    q, k, v = rows(place, 48, HEADS), rows(place, 48), rows(place, 48)
    wrapper.plan(Q, causal)
    close(wrapper.run(q, k, v, return_lse=True),
          attention(host(q), host(k), host(v), Q, Q, causal, sm_scale=0.2))
    assert wrapper.num_segments == 4 and "fa3" in wrapper.explain()


def test_cross_with_keys_of_none_and_queries_of_none(place):
    wrapper = make(dense_wrappers.DenseRaggedCrossPrefillWrapper, place)
    q_layout, kv_layout = offsets([3, 0, 2]), offsets([0, 5, 9])
    q, k, v = rows(place, 5, HEADS), rows(place, 14), rows(place, 14)
    wrapper.plan(q_layout.tolist(), torch.tensor(kv_layout))
    out, lse = wrapper.run(q, k, v, return_lse=True)
    close((out, lse), attention(host(q), host(k), host(v), q_layout, kv_layout))
    wrapper.plan([0, 2], [0, 0])
    out, lse = wrapper.run(q, k, v, return_lse=True)
    assert torch.all(out == 0) and torch.all(lse == float("-inf"))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("on", ["host", "device"])
@pytest.mark.parametrize("form", ["joined", "two sources", "paged"])
def test_prefixed(place, causal, form, on):
    ceilings = {} if on == "host" else {"max_total_tokens": 60, "max_total_kv_tokens": 300}
    wrapper = make(dense_wrappers.DensePrefixedPrefillWrapper, place, **ceilings)
    q, k, v = rows(place, 48, HEADS), rows(place, 48), rows(place, 48)
    old_k, old_v = rows(place, int(P[-1])), rows(place, int(P[-1]))
    all_k, all_v = joined(old_k, k), joined(old_v, v)
    (k_pages, table), v_pages = paged(old_k), None
    torch.manual_seed(5)
    put = (lambda x: torch.tensor(x)) if on == "host" else (lambda x: torch.tensor(x).to(place))  # noqa: E731
    if on == "device" and place == "cpu":
        pytest.skip("the host is the device here")
    if form == "joined":
        wrapper.plan(put(Q), put(KV), causal)
        got = wrapper.run(q, all_k, all_v, return_lse=True)
    elif form == "two sources":
        wrapper.plan_two_sources(put(Q), put(P), causal)
        got = wrapper.run_two_sources(q, old_k, old_v, k, v, return_lse=True)
    else:
        v_pages = torch.full_like(k_pages, float("nan"))
        for i in range(4):
            for j in range(int(P[i + 1] - P[i])):
                v_pages[table[i, j // PAGE], j % PAGE] = old_v[P[i] + j]
        wrapper.plan_paged(put(Q), put(P), table if on == "host" else table.to(place), PAGE, causal)
        got = wrapper.run_paged(q, k_pages, v_pages, k, v, return_lse=True)
    close(got, attention(host(q), host(all_k), host(all_v), Q, KV, causal))


def test_joined_keys_are_the_rows_themselves(place):
    """Bit by bit, with bounds above what the step has: rows that are no key are 0."""
    wrapper = make(dense_wrappers.DensePrefixedPrefillWrapper, place, max_num_segments=6,
                   max_total_tokens=60, max_total_kv_tokens=300, accelerator_graph=True)
    fresh, old = rows(place, 55), rows(place, int(P[-1]))
    fresh[48:] = float("nan")
    cache, table = paged(old)
    want = joined(old, fresh[:48])
    wrapper.plan_two_sources(Q, P)
    two = wrapper._join.join(old, fresh)
    wrapper.plan_paged(Q, P, table, PAGE)
    for keys in (two, wrapper._join.join(cache, fresh)):
        assert keys.shape[0] == 300
        assert torch.equal(keys[:len(want)], want) and torch.all(keys[len(want):] == 0)


def test_outputs_past_the_plan(place):
    wrapper = make(dense_wrappers.DenseRaggedPrefillWrapper, place)
    q, k, v = rows(place, 60, HEADS), rows(place, 60), rows(place, 60)
    wrapper.plan(Q)
    out, lse = wrapper.run(q, k, v, return_lse=True)
    assert out.shape == q.shape and torch.all(out[48:] == 0) and torch.all(lse[48:] == float("-inf"))
    mine, mine_lse = torch.full_like(q, 7), torch.full((60, HEADS), 7.0, device=place)
    assert wrapper.run(q, k, v, mine, mine_lse) is mine
    assert torch.all(mine[48:] == 7) and torch.all(mine_lse[48:] == 7)
    assert torch.equal(mine[:48], out[:48]) and torch.equal(mine_lse[:48], lse[:48])


def test_capacity_mode_keeps_its_buffers(place):
    wrapper = make(dense_wrappers.DensePrefixedPrefillWrapper, place, max_num_segments=6,
                   max_total_tokens=60, max_total_kv_tokens=300, accelerator_graph=True)
    q, k, v = rows(place, 60, HEADS), rows(place, 60), rows(place, 60)
    old_k, old_v = rows(place, 169), rows(place, 169)
    out, graph, kept = torch.zeros_like(q), None, None
    for fresh, prefix in ((FRESH, PREFIX), ([60], [169]), ([1, 2, 3, 4, 5, 6], [0, 9, 8, 7, 6, 5])):
        q_layout, p_layout = offsets(fresh), offsets(prefix)
        wrapper.plan_two_sources(q_layout, p_layout, True)
        if place == "cpu":
            wrapper.run_two_sources(q, old_k, old_v, k, v, out)
        elif graph is None:
            wrapper.run_two_sources(q, old_k, old_v, k, v, out)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                wrapper.run_two_sources(q, old_k, old_v, k, v, out)
        if graph is not None:
            graph.replay()
        pointers = [x.data_ptr() for x in wrapper._static.values()]
        kept = kept or pointers
        assert pointers == kept and wrapper.num_segments == len(fresh)
        every = [host(joined(a, b, p_layout, q_layout)) for a, b in ((old_k, k), (old_v, v))]
        count = int(q_layout[-1])
        want, _ = attention(host(q[:count]), *every, q_layout, q_layout + p_layout, True)
        close((out,), (want,), count=count)
    with pytest.raises(ra.OutOfRangeError, match="61 tokens exceed max_total_tokens = 60"):
        wrapper.plan_two_sources([0, 61], [0, 1], True)
    with pytest.raises(ra.OutOfRangeError, match="301 key tokens exceed max_total_kv_tokens = 300"):
        wrapper.plan_two_sources([0, 1], [0, 300], True)
    with pytest.raises(ra.OutOfRangeError, match="7 segments exceed max_num_segments = 6"):
        wrapper.plan_two_sources([0] * 8, [0] * 8, True)
    with pytest.raises(RuntimeError, match="causal was True; got False"):
        wrapper.plan_two_sources(Q, P)


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_WHEEL, reason="no fa3-fwd on a GPU")
def test_nothing_waits_for_the_gpu():
    """Offsets and page table on the GPU: torch refuses every synchronization meanwhile."""
    wrapper = make(dense_wrappers.DensePrefixedPrefillWrapper, "cuda", max_total_tokens=48,
                   max_total_kv_tokens=300)
    q, k, old = rows("cuda", 48, HEADS), rows("cuda", 48), rows("cuda", int(P[-1]))
    cache, table = paged(old)
    q_cu, p_cu, pages = (torch.as_tensor(x).cuda() for x in (Q, P, table))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        wrapper.plan_paged(q_cu, p_cu, pages, PAGE)
        wrapper.run_paged(q, cache, cache, k, k)
        wrapper.plan_paged(Q, P, table, PAGE)
        wrapper.run_paged(q, cache, cache, k, k)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_without_the_wheel_the_error_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", None)
    with pytest.raises(ra.UnsupportedError, match=r"need the wheel fa3-fwd \(pip install fa3-fwd\)"):
        dense_wrappers.DenseRaggedPrefillWrapper(4, 2, 64, device="cuda:0")


def test_what_the_wheel_lacks_is_refused_by_name(place):
    kind = dense_wrappers.DenseRaggedPrefillWrapper
    with pytest.raises(ra.UnsupportedError, match="q_data_type: fa3-fwd .* has no kernel for fp32"):
        kind(4, 2, 64, device=place, q_data_type="fp32")
    with pytest.raises(ValueError, match="head_dim must be a multiple of 8 up to 256; got 260"):
        kind(4, 2, 260, device=place)
    with pytest.raises(ValueError, match="multiple of num_kv_heads; got 4 and 3"):
        kind(4, 3, 64, device=place)
    with pytest.raises(ValueError, match="max_num_segments is required with accelerator_graph"):
        kind(4, 2, 64, device=place, accelerator_graph=True)


def test_fp16_is_refused_where_the_build_left_it_out(monkeypatch, place):
    monkeypatch.setitem(sys.modules, "fa3_fwd_config", type(sys)("fa3_fwd_config"))
    sys.modules["fa3_fwd_config"].CONFIG = {"build_flags": {"FLASHATTENTION_DISABLE_FP16": True}}
    monkeypatch.setattr(_dense_base.importlib.metadata, "version", lambda _: "0.0.3")
    with pytest.raises(ra.UnsupportedError, match="fa3-fwd 0.0.3 has no kernel for fp16"):
        make(dense_wrappers.DenseRaggedPrefillWrapper, place, q_data_type="fp16")


def test_a_device_without_kernels_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", fa3_stand_in.module())
    with pytest.raises(ra.UnsupportedError, match="device: fa3-fwd has no kernel for cpu"):
        make(dense_wrappers.DenseRaggedPrefillWrapper, "cpu")


def test_refusals(place):
    wrapper = make(dense_wrappers.DensePrefixedPrefillWrapper, place)
    q, k, old = rows(place, 48, HEADS), rows(place, 48), rows(place, 169)
    cache, table = paged(old)
    refused = [
        (ra.NotPlannedError, "call plan first", lambda: wrapper.run(q, k, k)),
        (ValueError, r"q_cu_seqlens\[0\] must be 0; got 1", lambda: wrapper.plan([1, 2], [0, 2])),
        (ValueError, r"kv_cu_seqlens\[2\] = 3 is less than kv_cu_seqlens\[1\] = 4",
         lambda: wrapper.plan([0, 2, 3], [0, 4, 3])),
        (ValueError, "must have 1 segments, as q_cu_seqlens; got 2",
         lambda: wrapper.plan([0, 2], [0, 4, 5])),
        (ValueError, "dtype int32 or int64", lambda: wrapper.plan([0.0, 2.0], [0, 4])),
        (TypeError, "causal must be True or False", lambda: wrapper.plan(Q, KV, "yes")),
        (ValueError, "a row for each of 4 segments; got 2",
         lambda: wrapper.plan_paged(Q, P, table[:2], PAGE)),
        (ValueError, "prefix of 129 keys; got 2 pages of 16",
         lambda: wrapper.plan_paged(Q, P, table[:, :2], PAGE)),
        (ValueError, r"page_table\[0, 0\] must be a page; got -1",
         lambda: wrapper.plan_paged(Q, P, torch.full_like(table, -1), PAGE)),
    ]
    for kind, text, call in refused:
        with pytest.raises(kind, match=text) as raised:
            call()
        assert isinstance(raised.value, ra.Error)
    wrapper.plan_paged(Q, P, table, PAGE)
    with pytest.raises(RuntimeError, match="keys of two sources; this run brings one"):
        wrapper.run(q, k, k)
    with pytest.raises(RuntimeError, match="call run_paged"):
        wrapper.run_two_sources(q, old, old, k, k)
    with pytest.raises(ValueError, match=r"v_pages must be \[pages, 16, .*got \[\d+, 8, 2, 72\]"):
        wrapper.run_paged(q, cache, cache[:, :8], k, k)
    with pytest.raises(ValueError, match="k_pages has 1 pages; page_table names page"):
        wrapper.run_paged(q, cache[:1], cache, k, k)
    with pytest.raises(ValueError, match="k has 47 rows; the plan reads 48"):
        wrapper.run_paged(q, cache, cache, k[:47], k)
    with pytest.raises(ValueError, match="q has dtype torch.float32; the plan has torch.bfloat16"):
        wrapper.run_paged(q.float(), cache, cache, k, k)
    wrapper.plan(Q, KV)
    with pytest.raises(RuntimeError, match="call plan_two_sources or plan_paged"):
        wrapper.run_two_sources(q, old, old, k, k)
    with pytest.raises(ValueError, match="inference only"):
        wrapper.run(q.clone().requires_grad_(True), old, old)
