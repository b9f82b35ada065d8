"""Attention in double precision with NumPy, one segment and head at a time: what tests compare with."""

import numpy as np


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def attention(q, k, v, q_offsets, kv_offsets, causal=False, block_size=0, sm_scale=None):
    """out, lse of packed [tokens, heads, head_dim] arrays; rows of no segment are 0 and -inf."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scale = q.shape[2] ** -0.5 if sm_scale is None else sm_scale
    group = q.shape[1] // k.shape[1]
    out = np.zeros(q.shape)
    lse = np.full(q.shape[:2], -np.inf)
    for i in range(len(q_offsets) - 1):
        rows = slice(int(q_offsets[i]), int(q_offsets[i + 1]))
        keys = slice(int(kv_offsets[i]), int(kv_offsets[i + 1]))
        q_len, kv_len = rows.stop - rows.start, keys.stop - keys.start
        if q_len == 0 or kv_len == 0:
            continue
        ends = np.full(q_len, kv_len)
        if causal:
            ends = np.arange(q_len) + kv_len - q_len + 1
        elif block_size:
            ends = np.minimum((np.arange(q_len) // block_size + 1) * block_size, kv_len)
        hidden = np.arange(kv_len)[None, :] >= ends[:, None]
        for head in range(q.shape[1]):
            scores = scale * q[rows, head] @ k[keys, head // group].T
            scores[hidden] = -np.inf
            top = scores.max(axis=1, keepdims=True)
            top[np.isinf(top)] = 0
            weights = np.exp(scores - top)
            total = weights.sum(axis=1, keepdims=True)
            seen = total[:, 0] > 0
            result = np.zeros((q_len, q.shape[2]))
            result[seen] = (weights @ v[keys, head // group])[seen] / total[seen]
            out[rows, head] = result
            with np.errstate(divide="ignore"):
                lse[rows, head] = (top + np.log(total))[:, 0]
    return out, lse
