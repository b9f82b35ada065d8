"""A module in the place of `fa3_fwd_interface`: the same function on a CPU, in double precision, so that
what the dense wrappers hand over is tested where there is no GPU. What it is not handed right, it answers
with NaN."""

import types

import torch
from expected import attention


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None,
    softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None,
    window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None,
    deterministic=False, sm_margin=0, return_attn_probs=False,
):  # fmt: skip
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
    assert q.dtype == k.dtype == v.dtype and q.dtype != torch.float32
    for cu, most, rows in ((cu_seqlens_q, max_seqlen_q, q), (cu_seqlens_k, max_seqlen_k, k)):
        assert cu.is_contiguous() and int(cu.diff().max()) <= most and int(cu[-1]) <= rows.shape[0]
    out, lse = attention(q.double(), k.double(), v.double(), cu_seqlens_q, cu_seqlens_k, causal,
                         sm_scale=softmax_scale)
    out, lse = torch.tensor(out).to(q.dtype), torch.tensor(lse).float().T
    # Memory that no kernel wrote holds anything.
    out[int(cu_seqlens_q[-1]):] = float("nan")
    lse[:, int(cu_seqlens_q[-1]):] = float("nan")
    return (out, lse) if return_attn_probs else out


def module():
    made = types.ModuleType("fa3_fwd_interface")
    made.flash_attn_varlen_func = flash_attn_varlen_func
    return made
