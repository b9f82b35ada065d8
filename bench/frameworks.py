"""How each framework from PyPI computes a workload, in the ways its users would write it.

A framework is a function (workload, sets, threads, dtype) -> [(variant, call, checked)]. `sets` are
equal inputs [(q, k, v)] at addresses of their own: `call(i)` computes the step on set i, `checked()`
on set 0, and returns the packed fp32 output. Segments of one length go as a dense batch, without
copies; others as one call a segment, which beats padding on every workload here. Raises Declined
with the reason where the framework has no way.
"""

import numpy as np


class Declined(Exception):
    """The framework cannot compute this workload; the text says why."""


def segments(workload, q, k, v):
    """[(q, k, v)] views: one dense batch [batch, tokens, heads, dim], or one batch-of-1 a segment."""
    if workload.same_lengths:
        return [tuple(x.reshape(len(workload.q_lengths), -1, *x.shape[1:]) for x in (q, k, v))]
    q_begin, kv_begin = np.cumsum([0, *workload.q_lengths]), np.cumsum([0, *workload.kv_lengths])
    return [(q[q_begin[i]:q_begin[i + 1]][None],
             *(x[kv_begin[i]:kv_begin[i + 1]][None] for x in (k, v)))
            for i in range(len(workload.q_lengths))]


def shared_mask(workload):
    """The mask of every segment where all have the same lengths; causal from the first key."""
    if not workload.block_size and not workload.causal:
        return None
    if not workload.same_lengths:
        raise Declined("masks of several lengths")
    return workload.mask(0)


def torch(workload, sets, threads, dtype):
    import torch as t
    from torch.nn.functional import scaled_dot_product_attention as sdpa
    t.set_num_threads(threads)
    t.set_grad_enabled(False)
    kind = {"fp32": t.float32, "bf16": t.bfloat16, "fp16": t.float16}[dtype]
    square = workload.q_lengths == workload.kv_lengths
    mask = None if workload.causal and square else shared_mask(workload)
    options = {"attn_mask": None if mask is None else t.from_numpy(mask),
               "is_causal": workload.causal and square,
               "enable_gqa": workload.num_qo_heads != workload.num_kv_heads}
    parts = [[tuple(x.transpose(1, 2) for x in part)
              for part in segments(workload, *(t.from_numpy(x).to(kind) for x in one))]
             for one in sets]

    def call(index):
        # A segment without keys has no softmax; its rows are 0.
        return [sdpa(*part, **options) if part[1].shape[2] else t.zeros_like(part[0])
                for part in parts[index]]

    def checked():
        rows = [x.transpose(1, 2).reshape(-1, workload.num_qo_heads, workload.head_dim)
                for x in call(0)]
        return t.cat(rows).float().numpy()

    return [("scaled_dot_product_attention", call, checked)]


def onnxruntime(workload, sets, threads, dtype):
    import onnxruntime as ort
    from onnx import TensorProto, helper
    if dtype != "fp32":
        raise Declined(f"its CPU attention takes fp32, not {dtype}")
    heads, kv_heads, dim = workload.num_qo_heads, workload.num_kv_heads, workload.head_dim
    mask = shared_mask(workload)

    def flat(x):
        return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])

    outs = [np.zeros_like(q) for q, _, _ in sets]

    def session(node, extra):
        value = helper.make_tensor_value_info
        ins = [value(n, TensorProto.FLOAT, ["b", "s" if n == "q" else "t", h * dim])
               for n, h in zip("qkv", (heads, kv_heads, kv_heads))]
        outs_ = [value("o", TensorProto.FLOAT, ["b", "s", heads * dim])]
        graph = helper.make_graph([node], "attention", ins, outs_, initializer=extra)
        model = helper.make_model(
            graph, ir_version=10,
            opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        return ort.InferenceSession(model.SerializeToString(), options,
                                    providers=["CPUExecutionProvider"])

    def tensor(name, array):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)

    nodes = {}
    if heads == kv_heads and not workload.causal:
        extra = [] if mask is None else [
            tensor("bias", np.where(mask, 0, -np.inf).astype(np.float32)[None, None])]
        nodes["MultiHeadAttention"] = helper.make_node(
            "MultiHeadAttention", ["q", "k", "v"] + (["", "", "bias"] if extra else []), ["o"],
            domain="com.microsoft", num_heads=heads, scale=dim**-0.5), extra
    extra = [tensor("mask", mask)] if mask is not None and not workload.causal else []
    nodes["Attention"] = helper.make_node(
        "Attention", ["q", "k", "v"] + (["mask"] if extra else []), ["o"], q_num_heads=heads,
        kv_num_heads=kv_heads, is_causal=int(workload.causal), scale=dim**-0.5), extra
    if workload.causal and workload.q_lengths == workload.kv_lengths and workload.same_lengths:
        length, batch = workload.q_lengths[0], len(workload.q_lengths)
        extra = [tensor("seqlens_k", np.full(batch, length - 1, np.int32)),
                 tensor("total", np.array([length], np.int32))]
        nodes["GroupQueryAttention"] = helper.make_node(
            "GroupQueryAttention", ["q", "k", "v", "", "", "seqlens_k", "total"], ["o", "", ""],
            domain="com.microsoft", num_heads=heads, kv_num_heads=kv_heads, scale=dim**-0.5), extra

    def variant(node, extra):
        run = session(node, extra)
        bindings = [[] for _ in sets]
        for mine, (q, k, v), out in zip(bindings, sets, outs):
            for part, rows in zip(segments(workload, q, k, v), segments(workload, out, k, v)):
                if part[1].shape[1] == 0:
                    continue  # a segment without keys; its rows stay 0
                mine.append(run.io_binding())
                for name, array in zip("qkv", part):
                    mine[-1].bind_cpu_input(name, flat(array))
                mine[-1].bind_ortvalue_output("o", ort.OrtValue.ortvalue_from_numpy(flat(rows[0])))

        def call(index):
            for binding in bindings[index]:
                run.run_with_iobinding(binding)

        def checked():
            outs[0].fill(0)
            call(0)
            return outs[0]

        return call, checked

    return [(name, *variant(*made)) for name, made in nodes.items()]


def openvino(workload, sets, threads, dtype):
    import openvino as ov
    from openvino import opset13 as op
    if dtype not in ("fp32", "bf16"):
        raise Declined(f"its CPU plugin computes fp32 or bf16, not {dtype}")
    if workload.num_qo_heads != workload.num_kv_heads:
        raise Declined("grouped heads need keys repeated in memory")
    mask = shared_mask(workload)
    heads, dim = workload.num_qo_heads, workload.head_dim
    params = [op.parameter(ov.PartialShape([-1, -1, heads, dim]), np.float32) for _ in range(3)]
    order = np.array([0, 2, 1, 3])
    inputs = [op.transpose(p, order) for p in params]
    if mask is not None:
        inputs.append(op.constant(mask[None, None]))
    attention = op.scaled_dot_product_attention(*inputs, causal=False)
    model = ov.Model([op.transpose(attention, order)], params)
    compiled = ov.Core().compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32" if dtype == "fp32" else "bf16"})
    request = compiled.create_infer_request()
    parts = [[list(part) for part in segments(workload, *one)] for one in sets]

    def call(index):
        for part in parts[index]:
            if part[1].shape[1]:  # without keys there is nothing to compute; the rows are 0
                request.infer(part, share_inputs=True, share_outputs=True)

    def checked():
        rows = []
        for part in parts[0]:
            rows.append(request.infer(part, share_inputs=True)[0] if part[1].shape[1]
                        else np.zeros_like(part[0]))
        return np.concatenate([x.reshape(-1, heads, dim) for x in rows])

    return [("ScaledDotProductAttention", call, checked)]


FRAMEWORKS = {"onnxruntime": onnxruntime, "openvino": openvino, "torch": torch}


def version(name):
    """The installed version, or None where the framework is not installed."""
    import importlib.metadata
    needed = {"onnxruntime": ("onnxruntime", "onnx", "numpy"), "openvino": ("openvino", "numpy"),
              "torch": ("torch", "numpy")}[name]
    try:
        return [importlib.metadata.version(package) for package in needed][0]
    except importlib.metadata.PackageNotFoundError:
        return None
