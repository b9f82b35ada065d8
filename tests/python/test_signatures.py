"""Names, order, kinds and defaults that users of other engines rely on."""

import dataclasses
import importlib
import inspect

import pytest
import ragged_attention as ra
from ragged_attention import config, manager, wrappers

EMPTY = inspect.Parameter.empty
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def parameters(function):
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def positional(function):
    return [(p.name, p.default) for p in parameters(function) if p.kind is POSITIONAL]


WRAPPER = [
    ("num_qo_heads", EMPTY), ("num_kv_heads", EMPTY), ("head_dim", EMPTY),
    ("max_num_segments", None), ("max_total_tokens", None), ("max_total_kv_tokens", None),
    ("device", "cuda"), ("accelerator_graph", False), ("sm_scale", None),
    ("q_data_type", "bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["RaggedPrefillWrapper", "RaggedCrossPrefillWrapper", "PrefixedPrefillWrapper"]
)
def test_wrapper_constructors(name):
    assert positional(getattr(wrappers, name).__init__) == WRAPPER


@pytest.mark.parametrize(
    "name",
    ["FlashInferRaggedPrefillWrapper", "FlashInferRaggedCrossPrefillWrapper",
     "FlashInferPrefixedPrefillWrapper"],
)  # fmt: skip
def test_flashinfer_constructors(name):
    twin = getattr(wrappers, name)
    assert positional(twin.__init__) == [
        ("workspace_buffer", EMPTY), ("num_qo_heads", EMPTY), ("num_kv_heads", EMPTY),
        ("head_dim", EMPTY),
    ]  # fmt: skip
    keyword = [p for p in parameters(twin.__init__) if p.kind is not POSITIONAL]
    assert [(p.name, p.default) for p in keyword] == [
        ("kv_layout", "NHD"), ("backend", "auto"), ("kwargs", EMPTY)
    ]  # fmt: skip
    assert keyword[-1].kind is inspect.Parameter.VAR_KEYWORD
    assert issubclass(twin, getattr(wrappers, name.removeprefix("FlashInfer")))


@pytest.mark.parametrize(
    "name", ["RaggedPrefillWrapper", "RaggedCrossPrefillWrapper", "PrefixedPrefillWrapper"]
)
def test_dense_wrappers_have_the_shape_of_the_others(name, torch):
    dense_wrappers = importlib.import_module("ragged_attention.dense_wrappers")
    ours, dense = getattr(wrappers, name), getattr(dense_wrappers, f"Dense{name}")
    assert positional(dense.__init__) == WRAPPER
    for method in ("plan", "run", "plan_two_sources", "run_two_sources"):
        if hasattr(ours, method):
            assert positional(getattr(dense, method)) == positional(getattr(ours, method))


def test_plans():
    assert positional(wrappers.RaggedPrefillWrapper.plan) == [
        ("cu_seqlens", EMPTY), ("causal", False)
    ]  # fmt: skip
    assert positional(wrappers.RaggedCrossPrefillWrapper.plan) == [
        ("q_cu_seqlens", EMPTY), ("kv_cu_seqlens", EMPTY)
    ]  # fmt: skip
    assert positional(wrappers.PrefixedPrefillWrapper.plan) == [
        ("q_cu_seqlens", EMPTY), ("kv_cu_seqlens", EMPTY), ("causal", False)
    ]  # fmt: skip
    assert positional(wrappers.padded_head_dim) == [("head_dim", EMPTY)]
    for wrapper in (wrappers.RaggedPrefillWrapper, wrappers.RaggedBlockCausalWrapper):
        assert [name for name, _ in positional(wrapper.run)][:3] == ["q", "k", "v"]


def test_config_fields():
    assert positional(config.RaggedAttentionConfig.__init__) == [
        ("num_qo_heads", EMPTY), ("num_kv_heads", EMPTY), ("head_dim", EMPTY), ("sm_scale", None),
        ("max_segments_per_request", 1), ("max_tokens_per_request", None),
        ("backend", config.RaggedAttnBackend.AUTO), ("flashinfer_backend", "auto"),
        ("dtype", None),
    ]  # fmt: skip
    assert config.RaggedAttnBackend.AUTO.value == "auto"
    assert config.RaggedAttnBackend.FLASHINFER.value == "flashinfer"


def test_specs_and_steps():
    base = [("resource_key", EMPTY), ("nodes", EMPTY), ("config", EMPTY)]
    assert positional(config.RaggedAttentionSpec.__init__) == base
    assert positional(config.RaggedCrossAttentionSpec.__init__) == base
    assert positional(config.RaggedBlockCausalAttentionSpec.__init__) == [
        *base, ("block_size", EMPTY)
    ]  # fmt: skip
    assert positional(config.RaggedCrossAttentionStep.__init__) == [
        ("segments", None), ("pairs", ())
    ]  # fmt: skip
    assert positional(config.AttentionStep.__init__) == [("segments", None), ("causal", False)]
    assert issubclass(config.RaggedCrossAttentionStep, config.ResourceStep)
    assert all(dataclasses.is_dataclass(getattr(config, name)) for name in (
        "RaggedAttentionConfig", "RaggedAttentionSpec", "Segment", "AttentionStep"))
    assert positional(config.cross_label) == [("q_label", EMPTY), ("kv_label", EMPTY)]


def test_callable():
    assert positional(manager.RaggedAttentionCallable.__init__) == [
        ("resource", EMPTY), ("label", EMPTY)
    ]  # fmt: skip
    assert [n for n, _ in positional(manager.RaggedAttentionCallable.__call__)][:3] == [
        "q", "k", "v"
    ]  # fmt: skip
    assert ra.cross_label("video", "text") == "video<-text"
