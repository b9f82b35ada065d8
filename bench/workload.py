"""Workloads as bench/workloads/*.json gives them, their inputs, and what is right for them."""

import dataclasses
import json
import pathlib

import numpy as np


@dataclasses.dataclass
class Workload:
    """Lengths in tokens, one entry a segment; kv_lengths counts prefix and fresh keys together."""

    name: str
    kind: str
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    causal: bool
    block_size: int | None
    q_lengths: list
    kv_lengths: list

    @property
    def same_lengths(self):
        """True if the segments form a dense batch."""
        return len(set(self.q_lengths)) == 1 and len(set(self.kv_lengths)) == 1

    def visible_end(self, row, segment):
        """One past the last key that query row(s) `row` of a segment see; arrays welcome."""
        q_len, kv_len = self.q_lengths[segment], self.kv_lengths[segment]
        if self.block_size:
            return np.minimum((row // self.block_size + 1) * self.block_size, kv_len)
        if self.causal:
            return np.clip(row + kv_len - q_len + 1, 0, kv_len)
        return np.full_like(row, kv_len)

    def mask(self, segment):
        """[q, kv] booleans, True = visible; None where every key is."""
        if not self.block_size and not self.causal:
            return None
        rows = np.arange(self.q_lengths[segment])
        return np.arange(self.kv_lengths[segment])[None] < self.visible_end(rows, segment)[:, None]

    @property
    def flops(self):
        """4 x visible scores x num_qo_heads x head_dim."""
        scores = sum(int(self.visible_end(np.arange(q), i).sum())
                     for i, q in enumerate(self.q_lengths))
        return 4.0 * scores * self.num_qo_heads * self.head_dim

    def size(self, element_bytes):
        """Bytes of q, k, v and out, each once."""
        rows = 2 * sum(self.q_lengths) * self.num_qo_heads + 2 * sum(self.kv_lengths) * self.num_kv_heads
        return float(rows * self.head_dim * element_bytes)


def expand(runs):
    return [tokens for count, tokens in runs for _ in range(count)]


def load(path):
    """The workloads of one file, by name."""
    result = {}
    for entry in json.loads(pathlib.Path(path).read_text(encoding="utf-8")):
        q_lengths = expand(entry["q_segments"])
        kv_lengths = expand(entry["kv_segments"]) if entry["kv_segments"] else q_lengths
        if entry["kind"] == "prefixed":
            kv_lengths = [prefix + fresh for prefix, fresh in zip(kv_lengths, q_lengths)]
        fields = ("name", "kind", "num_qo_heads", "num_kv_heads", "head_dim", "causal", "block_size")
        result[entry["name"]] = Workload(**{field: entry[field] for field in fields},
                                         q_lengths=q_lengths, kv_lengths=kv_lengths)
    return result


def inputs(workload, seed=1):
    """q, k, v: packed fp32 of normal values, [tokens, heads, head_dim]."""
    random = np.random.default_rng(seed)
    shapes = [(sum(workload.q_lengths), workload.num_qo_heads)]
    shapes += 2 * [(sum(workload.kv_lengths), workload.num_kv_heads)]
    return [random.standard_normal((*shape, workload.head_dim), dtype=np.float32) for shape in shapes]


def max_error(workload, q, k, v, out, rows=48, seed=2):
    """Largest absolute error of `out` against double precision, on sampled rows, every head.

    NaN or infinity anywhere in `out` gives infinity.
    """
    if not np.isfinite(out).all():
        return float("inf")
    q_begin = np.cumsum([0, *workload.q_lengths])
    kv_begin = np.cumsum([0, *workload.kv_lengths])
    group = workload.num_qo_heads // workload.num_kv_heads
    total = int(q_begin[-1])
    picks = np.random.default_rng(seed).choice(total, size=min(rows, total), replace=False)
    worst = 0.0
    for token in (0, total - 1, *picks):
        segment = int(np.searchsorted(q_begin, token, side="right")) - 1
        end = int(workload.visible_end(np.array(token - q_begin[segment]), segment))
        if end == 0:
            worst = max(worst, float(np.abs(out[token]).max()))
            continue
        span = slice(kv_begin[segment], kv_begin[segment] + end)
        keys = np.repeat(k[span].astype(np.float64), group, axis=1)
        values = np.repeat(v[span].astype(np.float64), group, axis=1)
        scores = np.einsum("hd,khd->hk", q[token].astype(np.float64), keys) * workload.head_dim**-0.5
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        expected = np.einsum("hk,khd->hd", weights / weights.sum(axis=1, keepdims=True), values)
        worst = max(worst, float(np.abs(out[token] - expected).max()))
    return worst
