"""Specs, steps and labels through the manager."""

import dataclasses

import numpy as np
import pytest
import ragged_attention as ra
from expected import attention

CONFIG = {"num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 32, "dtype": "fp32"}


def config(**changes):
    return ra.RaggedAttentionConfig(**CONFIG | changes)


def manager(spec=ra.RaggedAttentionSpec, engine=(), extra=(), **changes):
    made = spec("attn", {"encoder"}, config(**changes), *extra)
    return ra.RaggedAttentionManager(made, device="cpu", **dict(engine))


def tensors(random, rows, kv_rows=None):
    kv_rows = rows if kv_rows is None else kv_rows
    shapes = [(rows, 4, 32), (kv_rows, 2, 32), (kv_rows, 2, 32)]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def segments(*spans, label="main"):
    return tuple(ra.Segment(f"r{i}", label, span) for i, span in enumerate(spans))


@pytest.mark.parametrize("causal", [False, True])
def test_self(random, causal):
    resource = manager()
    resource.plan(ra.AttentionStep(segments(3, 0, 5), causal))
    q, k, v = tensors(random, 8)
    want, _ = attention(q, k, v, [0, 3, 3, 8], [0, 3, 3, 8], causal)
    for out in (resource.run(q, k, v), resource.run(q, k, v, "main"), resource.run("main", q, k, v),
                ra.RaggedAttentionCallable(resource, "main")(q=q, k=k, v=v),
                resource.callable("main")(q, k, v)):
        np.testing.assert_allclose(out, want, atol=2e-5)
    assert resource.num_segments("main") == 3
    assert resource.planned_labels() == ["main"]
    assert "cpu" in resource.explain() and resource.draw().svg.startswith("<svg")


def test_labels_are_layouts_of_their_own(random):
    resource = manager()
    resource.plan(ra.AttentionStep(segments(2, 2, label="video") + segments(1, 3, label="text")))
    q, k, v = tensors(random, 4)
    for label, layout in (("video", [0, 2, 4]), ("text", [0, 1, 4])):
        np.testing.assert_allclose(
            resource.run(q, k, v, label), attention(q, k, v, layout, layout)[0], atol=2e-5
        )
    resource.plan(ra.AttentionStep(segments(4, label="text")))
    with pytest.raises(KeyError, match="no plan of label 'video' in this step; planned: 'text'"):
        resource.run(q, k, v, "video")


def test_cross(random):
    resource = manager(ra.RaggedCrossAttentionSpec)
    step = ra.RaggedCrossAttentionStep(
        segments(2, 3, label="video") + segments(4, 1, label="text"), (("video", "text"),)
    )
    resource.plan(step)
    q, k, v = tensors(random, 5, 5)
    out = resource.run(q, k, v, ra.cross_label("video", "text"))
    np.testing.assert_allclose(out, attention(q, k, v, [0, 2, 5], [0, 4, 5])[0], atol=2e-5)
    other = (ra.Segment("r1", "text", 1), ra.Segment("r0", "text", 4))
    with pytest.raises(ValueError, match="must list the same requests in the same order"):
        resource.plan(dataclasses.replace(step, segments=step.segments[:2] + other))


def test_block_causal(random):
    resource = manager(ra.RaggedBlockCausalAttentionSpec, extra=(2,))
    resource.plan(ra.AttentionStep(segments(5)))
    q, k, v = tensors(random, 5)
    want, _ = attention(q, k, v, [0, 5], [0, 5], block_size=2)
    np.testing.assert_allclose(resource.run(q, k, v), want, atol=2e-5)
    with pytest.raises(ValueError, match="causal must be false"):
        resource.plan(ra.AttentionStep(segments(5), causal=True))


def test_prefixed(random):
    resource = manager(ra.RaggedPrefixedAttentionSpec)
    every = segments(2, 3) + segments(4, 1, label="prefix")
    q, k, v = tensors(random, 5)
    _, pk, pv = tensors(random, 1, 5)
    resource.plan(ra.RaggedPrefixedAttentionStep(every, (("main", "prefix"),), True, True))
    out = resource.run_two_sources(ra.cross_label("main", "prefix"), q, pk, pv, k, v)
    join = lambda old, new: np.concatenate([old[:4], new[:2], old[4:], new[2:]])  # noqa: E731
    want, _ = attention(q, join(pk, k), join(pv, v), [0, 2, 5], [0, 6, 10], causal=True)
    np.testing.assert_allclose(out, want, atol=2e-5)


def lease(slot, bs=2, tokens=10):
    return ra.PlanContext(lease=ra.SlotLease(slot, ra.BucketKey("walk", bs, tokens)))


def test_preplan_is_promoted_only_for_its_own_step(random):
    resource = manager()
    now, later, other = (ra.AttentionStep(segments(*spans)) for spans in ((3, 4), (5, 2), (6, 1)))
    with pytest.raises(RuntimeError, match="needs a lease"):
        resource.preplan(later, ra.PlanContext())
    resource.plan(now, lease(0))
    resource.preplan(later, lease(1))
    assert resource.preplan_pending
    with pytest.raises(ra.InvalidStateError, match="has a pending preplan"):
        resource.preplan(other, lease(1))
    with pytest.raises(ra.InvalidStateError, match="not the one that was preplanned"):
        resource.plan(other, lease(1))
    resource.plan(later, lease(1))
    q, k, v = tensors(random, 7)
    np.testing.assert_allclose(
        resource.run(q, k, v), attention(q, k, v, [0, 5, 7], [0, 5, 7])[0], atol=2e-5
    )
    resource.preplan(now, lease(0))
    resource.clear_preplan()
    assert not resource.preplan_pending
    with pytest.raises(ValueError, match="11 tokens exceed"):
        resource.plan(ra.AttentionStep(segments(11)), lease(0))


def test_rows_past_the_plan_are_zero(random):
    resource = manager()
    resource.plan(ra.AttentionStep(segments(3)), lease(0))
    q, k, v = tensors(random, 10)
    out, lse = resource.run(q, k, v, return_lse=True)
    assert np.all(out[3:] == 0) and np.any(out[:3] != 0) and np.all(np.isneginf(lse[3:]))


def test_shards_narrow_a_copy_of_the_config():
    resource = manager(engine={"num_shards": 2})
    assert (resource.config.num_qo_heads, resource.config.num_kv_heads) == (2, 1)
    assert (resource.spec.config.num_qo_heads, resource.spec.config.num_kv_heads) == (4, 2)
    assert resource.config.dtype == "fp32" and resource.resource_key == "attn"


def test_a_dtype_is_needed_and_the_configs_own_wins():
    with pytest.raises(ValueError, match="resource 'attn' has no activation dtype"):
        manager(dtype=None)
    assert manager(engine={"dtype": "bf16"}, dtype=None).config.dtype == "bf16"
    assert manager(engine={"dtype": "bf16"}).config.dtype == "fp32"


def test_torch_tensors_are_cast_to_the_configs_dtype(torch):
    resource = manager(dtype=torch.float16)
    resource.plan(ra.AttentionStep(segments(3)))
    q, k = torch.randn(3, 4, 32), torch.randn(3, 2, 32)
    out = resource.run(q, k, k)
    assert out.dtype == torch.float16
    assert torch.equal(out, resource.run(q.half(), k.half(), k.half()))


def test_an_engines_own_types_will_do(random):
    @dataclasses.dataclass
    class Part:
        request_id: int
        label: str
        span: int

    @dataclasses.dataclass
    class Step:
        segments: list
        causal: bool = False

    resource = manager()
    resource.plan(Step([Part(1, "main", 2), Part(2, "main", 3)], True))
    q, k, v = tensors(random, 5)
    want, _ = attention(q, k, v, [0, 2, 5], [0, 2, 5], causal=True)
    np.testing.assert_allclose(resource.run(q, k, v), want, atol=2e-5)


def test_inherited_segments(random):
    resource = manager()
    with pytest.raises(ValueError, match="gives no segments and inherits none"):
        resource.plan(ra.AttentionStep())
    resource.plan(ra.AttentionStep(), ra.PlanContext(inherited_segments=segments(2, 2)))
    assert resource.num_segments() == 2


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (object(), "step must be an AttentionStep"),
        (ra.AttentionStep(5), "segments must be a sequence; got int"),
        (ra.AttentionStep((ra.Segment("r", "main", "3"),)), "span must be a whole number; got '3'"),
        (ra.AttentionStep((ra.Segment(None, "main", 3),)), "request_id must be a string; got None"),
        (ra.AttentionStep((ra.Segment("r", 7, 3),)), "label must be a string; got 7"),
        (ra.AttentionStep((), causal="yes"), "causal must be True or False; got 'yes'"),
    ],
)
def test_malformed_steps(step, text):
    with pytest.raises(ra.WrongTypeError, match=text):
        manager().plan(step)


def test_a_step_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="declared with AttentionStep; got RaggedCrossAttentionStep"):
        manager().plan(ra.RaggedCrossAttentionStep(segments(2), ()))
