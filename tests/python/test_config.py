"""Declarations: fields, ceilings, sharding, overrides, and the library's own texts."""

import pytest
import ragged_attention as ra


def config(**changes):
    return ra.RaggedAttentionConfig(**{"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 72} | changes)


def test_scale_is_of_the_true_head_dim():
    assert config().sm_scale == 72**-0.5
    assert config(sm_scale=0.5).sm_scale == 0.5


def test_ceilings():
    declared = config(max_segments_per_request=3, max_tokens_per_request=100)
    assert declared.max_segments_for(4) == 12
    assert declared.max_tokens_for(4) == 400
    assert config().max_tokens_for(4) is None
    with pytest.raises(ValueError, match="bs must be at least 0; got -1"):
        declared.max_segments_for(-1)


@pytest.mark.parametrize(("shards", "heads"), [(1, (32, 8)), (4, (8, 2)), (8, (4, 1)), (16, (2, 1))])
def test_shard_starts_from_the_declared_counts(shards, heads):
    declared = config()
    declared.shard(2)
    declared.shard(shards)
    declared.shard(shards)
    assert (declared.num_qo_heads, declared.num_kv_heads) == heads
    assert declared.head_dim == 72


@pytest.mark.parametrize("shards", [0, 3, 5, 64])
@pytest.mark.parametrize("kv_heads", [8, 6])
def test_shard_refuses_with_the_librarys_own_text(shards, kv_heads):
    """Python's declaration and C++'s are two programs; they must say the same."""
    declared = config(num_qo_heads=48 if kv_heads == 6 else 32, num_kv_heads=kv_heads, dtype="fp32")
    spec = ra.RaggedAttentionSpec("attn", {"node"}, declared)

    def text_of(action):
        try:
            action()
        except ValueError as error:
            return str(error)
        return None

    ours = text_of(lambda: config(num_qo_heads=declared.num_qo_heads,
                                  num_kv_heads=kv_heads).shard(shards))
    theirs = text_of(lambda: ra.RaggedAttentionManager(spec, device="cpu", num_shards=shards))
    assert ours == theirs
    assert ours is not None or shards == 3 and kv_heads == 6


def test_overrides():
    declared = config()
    declared.override_field("max_tokens_per_request", "64")
    declared.override_field("max_segments_per_request", 2)
    declared.override_field("flashinfer_backend", "fa2")
    assert (declared.max_tokens_per_request, declared.max_segments_per_request) == (64, 2)
    assert declared.flashinfer_backend == "fa2"
    for key, value, text in [
        ("head_dim", 8, "got 'head_dim'"),
        ("flashinfer_backend", "fa9", "auto, fa2, fa3; got 'fa9'"),
        ("max_tokens_per_request", "0", "at least 1; got '0'"),
        ("max_tokens_per_request", "1.5", "at least 1; got '1.5'"),
    ]:
        with pytest.raises(ra.InvalidArgumentError, match=text):
            declared.override_field(key, value)


def test_padded_head_dim():
    assert [ra.padded_head_dim(d) for d in (1, 64, 65, 128, 129, 256)] == [
        64, 64, 128, 128, 256, 256
    ]  # fmt: skip
    with pytest.raises(ValueError, match="head_dim = 257 exceeds the largest that FlashInfer"):
        ra.padded_head_dim(257)


def test_segments_default_to_the_main_label():
    assert ra.Segment("r", span=3) == ra.Segment("r", "main", 3)
    assert ra.AttentionStep().segments is None
