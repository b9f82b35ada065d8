"""The libraries that bench/peers_gpu.py times. Each class imports its library when it is made, and
`prepare` returns call(q, k, v) -> out, with all planning done before."""

import importlib.metadata


class Declined(Exception):
    """The peer does not compute this workload."""


def offsets(torch, lengths, dtype=None):
    total = torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0)
    return total.to("cuda", dtype or torch.int32)


def only_masks_of(case):
    if case.block_size:
        raise Declined("no block-causal mask")


def first_of(out):
    return out[0] if isinstance(out, tuple) else out


class Torch:
    """PyTorch's varlen_attn: FlashAttention-2 kernels."""

    name = "torch"

    def __init__(self):
        import torch
        from torch.nn.attention.varlen import varlen_attn
        self.version, self.attention = torch.__version__, varlen_attn

    def prepare(self, torch, case):
        only_masks_of(case)
        if case.num_qo_heads != case.num_kv_heads:
            raise Declined("no grouped heads")
        if case.causal and case.q_lengths != case.kv_lengths:
            raise Declined("not asked for causal of unequal lengths")
        q, kv = offsets(torch, case.q_lengths), offsets(torch, case.kv_lengths)
        most = max(case.q_lengths), max(case.kv_lengths)
        window = (-1, 0) if case.causal else (-1, -1)
        return lambda a, b, c: first_of(self.attention(a, b, c, q, kv, *most, window_size=window))


class FlashAttention3:
    """The prebuilt forward wheel `fa3-fwd`."""

    name = "fa3"

    def __init__(self):
        from fa3_fwd_interface import flash_attn_varlen_func
        self.version, self.attention = importlib.metadata.version("fa3-fwd"), flash_attn_varlen_func

    def prepare(self, torch, case):
        only_masks_of(case)
        plan = dict(cu_seqlens_q=offsets(torch, case.q_lengths),
                    cu_seqlens_k=offsets(torch, case.kv_lengths),
                    max_seqlen_q=max(case.q_lengths), max_seqlen_k=max(case.kv_lengths),
                    causal=case.causal)
        return lambda q, k, v: first_of(self.attention(q, k, v, **plan))


class FlashAttention4(FlashAttention3):
    """`flash-attn-4`: kernels compiled at first use, about two seconds each."""

    name = "fa4"

    def __init__(self):
        from flash_attn.cute import flash_attn_varlen_func
        self.version, self.attention = (importlib.metadata.version("flash-attn-4"),
                                        flash_attn_varlen_func)


class FlashInfer:
    """Ragged prefill of `flashinfer-python`, Hopper's kernels. Compiles at first use unless its
    prebuilt kernels are installed; head dims are padded."""

    name = "flashinfer"

    def __init__(self):
        import flashinfer
        self.version, self.library = flashinfer.__version__, flashinfer

    def prepare(self, torch, case):
        only_masks_of(case)
        padded = next((dim for dim in (64, 128, 256) if dim >= case.head_dim), None)
        if padded is None:
            raise Declined("head dim above 256")
        space = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        wrapper = self.library.BatchPrefillWithRaggedKVCacheWrapper(space, "NHD", backend="fa3")
        wrapper.plan(offsets(torch, case.q_lengths), offsets(torch, case.kv_lengths),
                     case.num_qo_heads, case.num_kv_heads, padded, causal=case.causal,
                     sm_scale=case.head_dim**-0.5, q_data_type=torch.bfloat16)
        extra = padded - case.head_dim
        pad = torch.nn.functional.pad

        def call(q, k, v):
            if not extra:
                return wrapper.run(q, k, v)
            return wrapper.run(*(pad(x, (0, extra)) for x in (q, k, v)))[..., :case.head_dim]
        return call


class Cudnn:
    """cuDNN's attention with ragged offsets, through cudnn-frontend."""

    name = "cudnn"

    def __init__(self):
        import cudnn
        self.library, self.version = cudnn, str(cudnn.backend_version())
        self.handle = cudnn.create_handle()

    def prepare(self, torch, case):
        only_masks_of(case)
        cudnn, dims, batch = self.library, case.head_dim, len(case.q_lengths)
        longest = max(case.q_lengths), max(case.kv_lengths)
        graph = cudnn.pygraph(io_data_type=cudnn.data_type.BFLOAT16,
                              intermediate_data_type=cudnn.data_type.FLOAT,
                              compute_data_type=cudnn.data_type.FLOAT, handle=self.handle)

        def tensor(name, heads, length):
            return graph.tensor(name=name, dim=[batch, heads, length, dims],
                                stride=[length * heads * dims, dims, heads * dims, 1],
                                data_type=cudnn.data_type.BFLOAT16)

        def index(name, count, dtype):
            return graph.tensor(name=name, dim=[count, 1, 1, 1], stride=[1, 1, 1, 1],
                                data_type=dtype)
        q = tensor("q", case.num_qo_heads, longest[0])
        k, v = (tensor(name, case.num_kv_heads, longest[1]) for name in "kv")
        ragged = [index("ragged_" + name, batch + 1, cudnn.data_type.INT64) for name in "qkvo"]
        for x, offset in zip((q, k, v), ragged):
            x.set_ragged_offset(offset)
        lengths = [index("length_" + name, batch, cudnn.data_type.INT32) for name in "qk"]
        mask = ({"use_causal_mask_bottom_right": True}
                if case.causal and case.q_lengths != case.kv_lengths
                else {"use_causal_mask": case.causal})
        out, _ = graph.sdpa(name="attention", q=q, k=k, v=v, is_inference=True,
                            attn_scale=dims**-0.5, use_padding_mask=True, seq_len_q=lengths[0],
                            seq_len_kv=lengths[1], **mask)
        heads = case.num_qo_heads
        out.set_output(True).set_dim([batch, heads, longest[0], dims]).set_stride(
            [longest[0] * heads * dims, dims, heads * dims, 1]).set_ragged_offset(
                ragged[3]).set_data_type(cudnn.data_type.BFLOAT16)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        space = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
        q_at = offsets(torch, case.q_lengths, torch.int64) * heads * dims
        kv_at = offsets(torch, case.kv_lengths, torch.int64) * case.num_kv_heads * dims
        fixed = dict(zip([*ragged, *lengths], [
            q_at, kv_at, kv_at, q_at,
            torch.tensor(case.q_lengths, dtype=torch.int32, device="cuda"),
            torch.tensor(case.kv_lengths, dtype=torch.int32, device="cuda")]))
        result = torch.empty(sum(case.q_lengths), heads, dims, device="cuda", dtype=torch.bfloat16)

        def call(a, b, c):
            cudnn.set_stream(handle=self.handle,
                             stream=torch.cuda.current_stream().cuda_stream)
            graph.execute({q: a, k: b, v: c, out: result, **fixed}, space, handle=self.handle)
            return result
        return call


PEERS = {peer.name: peer for peer in (Torch, FlashAttention3, FlashAttention4, FlashInfer, Cudnn)}
