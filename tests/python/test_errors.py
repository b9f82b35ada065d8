"""Refusals: the kind that Python users expect, always ragged_attention.Error, the library's text."""

import numpy as np
import pytest
import ragged_attention as ra
from ragged_attention import wrappers

CPU = {"device": "cpu", "q_data_type": "fp32"}


def packed(rows=5, heads=2, dim=64, dtype=np.float32):
    return np.zeros((rows, heads, dim), dtype)


def planned(**options):
    attend = ra.RaggedPrefillWrapper(2, 2, 64, **CPU | options)
    attend.plan([0, 2, 5])
    return attend


@pytest.mark.parametrize(
    ("kind", "base"),
    [("InvalidArgumentError", ValueError), ("OutOfRangeError", ValueError),
     ("UnsupportedError", RuntimeError), ("NotPlannedError", KeyError),
     ("NotPlannedError", RuntimeError), ("InvalidStateError", RuntimeError),
     ("DeviceError", RuntimeError), ("OutOfMemoryError", MemoryError),
     ("InternalError", RuntimeError), ("WrongTypeError", TypeError)],
)  # fmt: skip
def test_kinds(kind, base):
    error = getattr(ra, kind)
    assert issubclass(error, base) and issubclass(error, ra.Error)
    assert str(error("a 'text'")) == "a 'text'"


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ((2, 2, 60), ValueError, "head_dim must be a multiple of 8 in 8..256; got 60"),
        ((3, 2, 64), ValueError, "num_qo_heads must be a multiple of num_kv_heads; got 3 and 2"),
        (("2", 2, 64), TypeError, "num_qo_heads must be a whole number; got '2'"),
        ((2, 2.0, 64), TypeError, "num_kv_heads must be a whole number; got 2.0"),
        ((2, 2, 2**40), ValueError, "head_dim must be at most 2147483647"),
        ((2, 2, 64, 0), ValueError, "max_num_segments must be at least 1; got 0"),
        ((2, 2, 64, "3"), TypeError, "max_num_segments must be a whole number; got '3'"),
    ],
)
def test_constructor(arguments, kind, text):
    with pytest.raises(kind, match=text) as raised:
        ra.RaggedPrefillWrapper(*arguments, **CPU)
    assert isinstance(raised.value, ra.Error)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"device": "tpu"}, ValueError, "device must be cpu, cuda or cuda:N; got 'tpu'"),
        ({"device": 3}, TypeError, "device must be a device"),
        ({"q_data_type": "fp64"}, ValueError, "q_data_type must be bf16, fp16 or fp32; got 'fp64'"),
        ({"q_data_type": np.float64}, ValueError, "q_data_type must be bf16, fp16 or fp32"),
        ({"q_data_type": 3}, TypeError, "q_data_type must be a dtype or its name; got 3"),
        ({"backend": "fastest"}, ValueError, "backend must be one of auto, .*; got 'fastest'"),
        ({"sm_scale": "1"}, TypeError, "sm_scale must be a number or None; got '1'"),
        ({"accelerator_graph": 1}, TypeError, "accelerator_graph must be True or False; got 1"),
        ({"accelerator_graph": True}, ValueError, "max_num_segments is required"),
        ({"threads": -1}, ValueError, "threads must be at least 0; got -1"),
        ({"facts": "abacus"}, ValueError, "abacus"),
    ],
)
def test_options(options, kind, text):
    with pytest.raises(kind, match=text) as raised:
        ra.RaggedPrefillWrapper(2, 2, 64, **CPU | options)
    assert isinstance(raised.value, ra.Error)


@pytest.mark.parametrize(
    ("layout", "kind", "text"),
    [
        ([1, 2], ValueError, r"cu_seqlens\[0\] must be 0; got 1"),
        ([0, 57, 40], ValueError, r"cu_seqlens\[2\] = 40 is less than cu_seqlens\[1\] = 57"),
        ([], ValueError, "cu_seqlens must have at least 1 entry; got 0"),
        ([0, "2"], TypeError, r"cu_seqlens\[1\] must be a whole number; got '2'"),
        ([0, 2**70], TypeError, r"cu_seqlens\[1\] must be a whole number"),
        (None, TypeError, "cu_seqlens must be a tensor"),
        (np.zeros(3, np.float32), ValueError, "one-dimensional tensor of int32 or int64; got float32"),
        (np.zeros((1, 3), np.int32), ValueError, r"got int32 of shape \[1, 3\]"),
        (np.zeros(3, np.int16), ValueError, "got int16"),
    ],
)
def test_layouts(layout, kind, text):
    attend = planned()
    with pytest.raises(kind, match=text) as raised:
        attend.plan(layout)
    assert isinstance(raised.value, ra.Error)
    attend.run(packed(), packed(), packed())  # the plan before still works


@pytest.mark.parametrize(
    ("name", "tensor", "kind", "text"),
    [
        ("q", packed(4), ValueError, "q has 4 rows; the plan reads 5"),
        ("k", packed(heads=1), ValueError, "k has 1 heads?; the plan has 2|k .*heads.*2"),
        ("v", packed(dtype=np.float16), ValueError, "v has dtype fp16; the plan has fp32"),
        ("q", packed(dtype=np.float64), ValueError, "q must be of dtype bf16, fp16 or fp32; got float64"),
        ("k", np.zeros((5, 64), np.float32), ValueError,
         r"k must be \[tokens, heads, head_dim\]; got shape \[5, 64\]"),
        ("q", "tensor", TypeError, "q"),
        ("v", None, TypeError, "v must be a tensor that speaks DLPack .*; got NoneType"),
    ],
)
def test_tensors(name, tensor, kind, text):
    given = {"q": packed(), "k": packed(), "v": packed(), "out": packed()} | {name: tensor}
    with pytest.raises(kind, match=text) as raised:
        planned().run(**given)
    assert isinstance(raised.value, ra.Error)


def test_an_output_must_be_writable():
    out = packed()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out must be writable; this numpy.ndarray is read-only"):
        planned().run(packed(), packed(), packed(), out)


def test_read_only_inputs_are_taken():
    q = packed()
    q.flags.writeable = False
    assert planned().run(q, q, q).shape == q.shape


def test_run_before_a_plan():
    attend = ra.RaggedPrefillWrapper(2, 2, 64, **CPU)
    with pytest.raises(ra.NotPlannedError, match="nothing is planned yet; call plan first"):
        attend.run(packed(), packed(), packed())
    with pytest.raises(ra.NotPlannedError):
        attend.explain()


def test_flashinfer_is_pinned_and_refused_by_the_library_where_it_is_not_built():
    if "flashinfer" in ra.built_backends():
        pytest.skip("this build has flashinfer")
    workspace = np.zeros(1 << 20, np.uint8)
    with pytest.raises(ra.UnsupportedError, match="flashinfer"):
        ra.FlashInferRaggedPrefillWrapper(workspace, 2, 2, 64, device="cpu")
    with pytest.raises(ra.UnsupportedError, match="flashinfer is not built"):
        ra.FlashInferRaggedPrefillWrapper(workspace, 2, 2, 64, kv_layout="HND", device="cpu")
    with pytest.raises(ValueError, match="kv_layout must be 'NHD' or 'HND'; got 'nhd'"):
        ra.FlashInferRaggedPrefillWrapper(workspace, 2, 2, 64, kv_layout="nhd", device="cpu")
    with pytest.raises(ra.UnsupportedError, match="fa3 is not built"):
        ra.FlashInferRaggedPrefillWrapper(workspace, 2, 2, 64, backend="fa3", device="cpu")
    with pytest.raises(ValueError, match="backend must be one of auto, fa2, fa3; got 'fa9'"):
        ra.FlashInferRaggedPrefillWrapper(workspace, 2, 2, 64, backend="fa9", device="cpu")
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        ra.FlashInferRaggedPrefillWrapper(workspace, 2, 2, 64, speed=11)


def test_keys_with_heads_first_are_read_in_place():
    k = np.zeros((2, 5, 64), np.float32)
    read = wrappers._tokens_first(k, True)
    assert read.shape == (5, 2, 64) and np.shares_memory(read, k)
    assert wrappers._tokens_first(k, False) is k


def test_a_device_without_a_backend_is_refused_with_every_reason():
    if {"sm80", "sm90"} & set(ra.built_backends()):
        pytest.skip("this build has GPU backends")
    with pytest.raises(ra.UnsupportedError, match="cuda"):
        ra.RaggedPrefillWrapper(2, 2, 64)


def test_gradients_are_refused(torch):
    q = torch.zeros(5, 2, 64, requires_grad=True)
    k = torch.zeros(5, 2, 64)
    attend = planned()
    with pytest.raises(ValueError, match="q requires grad, .*inference only"):
        attend.run(q, k, k)
    with torch.no_grad():
        attend.run(q, k, k)
    with torch.inference_mode():
        attend.run(q, k, k)
    attend.run(q.detach(), k, k)
