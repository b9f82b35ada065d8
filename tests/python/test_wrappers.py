"""Every kind through every array library, against double precision."""

import json

import numpy as np
import pytest
import ragged_attention as ra
from expected import attention, offsets

TOLERANCE = {"fp32": 2e-5, "fp16": 4e-3, "bf16": 3e-2}


def tensors(random, tokens, kv_tokens, heads=4, kv_heads=2, dim=40):
    return (random.standard_normal((tokens, heads, dim)),
            random.standard_normal((kv_tokens, kv_heads, dim)),
            random.standard_normal((kv_tokens, kv_heads, dim)))


def wrapper(kind, dtype, heads=4, kv_heads=2, dim=40, **options):
    return kind(heads, kv_heads, dim, device="cpu", q_data_type=dtype, **options)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
def test_self(lib, random, dtype, causal):
    layout = offsets([3, 0, 17, 30])
    q, k, v = (lib.make(x, dtype) for x in tensors(random, 50, 50))
    attend = wrapper(ra.RaggedPrefillWrapper, lib.dtypes[dtype])
    attend.plan(lib.index(layout), causal)
    out, lse = attend.run(q, k, v, return_lse=True)
    want, want_lse = attention(lib.numpy(q), lib.numpy(k), lib.numpy(v), layout, layout, causal)
    assert type(out) is type(q) and out.dtype == q.dtype and out.shape == q.shape
    np.testing.assert_allclose(lib.numpy(out), want, atol=TOLERANCE[dtype])
    np.testing.assert_allclose(lib.numpy(lse), want_lse, atol=TOLERANCE[dtype])


def test_cross(lib, random):
    q_layout, kv_layout = offsets([4, 1, 0]), offsets([7, 0, 5])
    q, k, v = (lib.make(x, "fp32") for x in tensors(random, 5, 12))
    attend = wrapper(ra.RaggedCrossPrefillWrapper, "fp32")
    attend.plan(lib.index(q_layout), lib.index(kv_layout))
    out, lse = attend.run(q, k, v, return_lse=True)
    want, want_lse = attention(q, k, v, q_layout, kv_layout)
    np.testing.assert_allclose(lib.numpy(out), want, atol=2e-5)
    np.testing.assert_allclose(lib.numpy(lse), want_lse, atol=2e-5)
    assert np.all(lib.numpy(out)[4] == 0) and np.all(np.isneginf(lib.numpy(lse)[4]))


def test_block_causal(lib, random):
    layout = offsets([10, 3])
    q, k, v = (lib.make(x, "fp32") for x in tensors(random, 13, 13))
    attend = wrapper(ra.RaggedBlockCausalWrapper, "fp32", block_size=4)
    attend.plan(layout)
    want, _ = attention(q, k, v, layout, layout, block_size=4)
    np.testing.assert_allclose(lib.numpy(attend.run(q, k, v)), want, atol=2e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_prefixed_joined_and_in_two_sources(lib, random, causal):
    fresh, prefix = [4, 6], [9, 0]
    q_layout, prefix_layout = offsets(fresh), offsets(prefix)
    q, k, v = tensors(random, 10, 10)
    _, pk, pv = tensors(random, 1, 9)
    joined = offsets(np.add(fresh, prefix))
    join = lambda old, new: np.concatenate([old[:9], new[:4], new[4:]])  # noqa: E731
    attend = wrapper(ra.PrefixedPrefillWrapper, "fp32", sm_scale=0.3)
    attend.plan(q_layout, joined, causal)
    q, k, v, pk, pv = (x.astype(np.float32) for x in (q, k, v, pk, pv))
    want, _ = attention(q, join(pk, k), join(pv, v), q_layout, joined, causal, sm_scale=0.3)
    make = lambda x: lib.make(x, "fp32")  # noqa: E731
    one = attend.run(make(q), make(join(pk, k)), make(join(pv, v)))
    attend.plan_two_sources(q_layout, prefix_layout, causal)
    two = attend.run_two_sources(make(q), make(pk), make(pv), make(k), make(v))
    np.testing.assert_allclose(lib.numpy(one), want, atol=2e-5)
    np.testing.assert_allclose(lib.numpy(two), want, atol=2e-5)


@pytest.mark.parametrize("form", ["list", "tuple", "int32", "int64", "strided"])
def test_forms_of_offsets(lib, random, form):
    layout = {"list": [0, 2, 5], "tuple": (0, 2, 5), "int32": lib.index([0, 2, 5]),
              "int64": lib.index([0, 2, 5], 64), "strided": np.array([0, 9, 2, 9, 5])[::2]}[form]
    q, k, v = (lib.make(x, "fp32") for x in tensors(random, 5, 5))
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32")
    attend.plan(layout)
    want, _ = attention(q, k, v, [0, 2, 5], [0, 2, 5])
    np.testing.assert_allclose(lib.numpy(attend.run(q, k, v)), want, atol=2e-5)
    assert attend.num_segments == 2


def test_rows_past_the_plan_are_zero_in_an_output_of_ours(lib, random):
    q, k, v = (lib.make(x, "fp32") for x in tensors(random, 9, 9))
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32")
    attend.plan([0, 2, 5])
    out, lse = attend.run(q, k, v, return_lse=True)
    assert np.all(lib.numpy(out)[5:] == 0) and np.any(lib.numpy(out)[:5] != 0)
    assert np.all(np.isneginf(lib.numpy(lse)[5:]))


def test_rows_past_the_plan_stay_in_an_output_of_the_callers(random):
    q, k, v = (x.astype(np.float32) for x in tensors(random, 9, 9))
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32")
    attend.plan([0, 2, 5])
    out, lse = np.full(q.shape, 7, np.float32), np.full(q.shape[:2], 7, np.float32)
    assert attend.run(q, k, v, out, lse) is out
    assert np.all(out[5:] == 7) and np.all(lse[5:] == 7) and not np.any(lse[:5] == 7)


def test_spans_with_gaps(random):
    q, k, v = (x.astype(np.float32) for x in tensors(random, 9, 9))
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32")
    attend.plan(ra.SegmentSpans([1, 6], [3, 2]))
    out = attend.run(q, k, v)
    for rows in (slice(1, 4), slice(6, 8)):
        n = rows.stop - rows.start
        want, _ = attention(q[rows], k[rows], v[rows], [0, n], [0, n])
        np.testing.assert_allclose(out[rows], want, atol=2e-5)
    assert np.all(out[[0, 4, 5, 8]] == 0)
    cross = wrapper(ra.RaggedCrossPrefillWrapper, "fp32")
    cross.plan(ra.SegmentSpans([1], [2]), ra.SegmentSpans([4], [5]))
    want, _ = attention(q[1:3], k[4:9], v[4:9], [0, 2], [0, 5])
    np.testing.assert_allclose(cross.run(q, k, v)[1:3], want, atol=2e-5)


def test_strides_are_read_in_place(random):
    qkv = random.standard_normal((6, 3, 4, 40)).astype(np.float32)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32", kv_heads=4)
    attend.plan([0, 6])
    want, _ = attention(q, k, v, [0, 6], [0, 6])
    np.testing.assert_allclose(attend.run(q, k, v), want, atol=2e-5)
    with pytest.raises(ValueError, match="q must have stride 1 in head_dim; got 2"):
        attend.run(np.zeros((6, 4, 80), np.float32)[..., ::2], k, v)


def test_a_row_has_the_same_bits_alone_and_with_neighbours(random):
    q, k, v = (x.astype(np.float32) for x in tensors(random, 60, 60))
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32")
    attend.plan([0, 23, 60])
    together = attend.run(q, k, v)
    attend.plan([0, 37])
    assert np.array_equal(attend.run(q[23:], k[23:], v[23:]), together[23:])


def test_capacity_mode(random):
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32", max_num_segments=3, max_total_tokens=20,
                     accelerator_graph=True)
    q, k, v = (x.astype(np.float32) for x in tensors(random, 20, 20))
    for layout in ([0, 5, 9], [0, 20], [0, 1, 1, 4]):
        attend.plan(layout)
        want, _ = attention(q, k, v, layout, layout)
        np.testing.assert_allclose(attend.run(q, k, v), want, atol=2e-5)
    with pytest.raises(ra.OutOfRangeError, match="21 tokens exceed max_total_tokens = 20"):
        attend.plan([0, 21])
    np.testing.assert_allclose(attend.run(q, k, v), want, atol=2e-5)  # the plan before still works


def test_plans_explain_themselves(random):
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32", threads=1)
    assert not attend.planned
    attend.plan([0, 3, 20])
    assert attend.planned and attend.workspace_bytes >= 0
    assert "cpu" in attend.explain()
    assert json.loads(attend.to_json())["backend"] == "cpu"
    pinned = wrapper(ra.RaggedPrefillWrapper, "fp32", backend="reference")
    pinned.plan([0, 3])
    assert json.loads(pinned.to_json())["backend"] == "reference"
    assert "REFERENCE" in ra.RaggedAttnBackend.__members__


def test_pictures(tmp_path):
    attend = wrapper(ra.RaggedPrefillWrapper, "fp32")
    attend.plan([0, 30, 50], causal=True)
    picture = attend.draw(segments=2)
    assert picture._repr_svg_().startswith("<svg") and "segment 1" in str(picture)
    picture.save(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match="segments must be at least 1; got 0"):
        attend.draw(segments=0)
