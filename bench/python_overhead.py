#!/usr/bin/env python3
"""What one call from Python costs on the host: `build/venv/bin/python bench/python_overhead.py`.

Calls that have nothing to compute (a plan of no tokens), so that what remains is the way through Python;
best of 1000 rounds of 100 calls, in microseconds. The last lines attend one row of one head, beside
PyTorch's own attention on it.
"""

import time

import numpy as np
import ragged_attention as ra
import torch
from ragged_attention import torch_ops

# Short rounds fit into one time slice of a machine that is busy with other work.
ROUNDS, CALLS = 1000, 100


def best_us(call):
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
    return best / 1000


def wrapper(tokens):
    made = ra.RaggedPrefillWrapper(1, 1, 8, device="cpu", q_data_type="fp32", threads=1)
    made.plan([0, tokens])
    return made


def main():
    none, one = wrapper(0), wrapper(1)
    t0, n0 = torch.zeros(0, 1, 8), np.zeros((0, 1, 8), np.float32)
    t1, cu = torch.randn(1, 1, 8), torch.tensor([0, 1], dtype=torch.int32)
    out = torch.empty_like(t1)
    four = t1.view(1, 1, 1, 8)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    with torch.inference_mode():
        for name, call in {
            "no work, torch, into an output": lambda: none.run(t0, t0, t0, t0),
            "no work, torch, output made": lambda: none.run(t0, t0, t0),
            "torch.empty_like alone": lambda: torch.empty_like(t0),
            "no work, NumPy, into an output": lambda: none.run(n0, n0, n0, n0),
            "no work, NumPy, output made": lambda: none.run(n0, n0, n0),
            "plan of the same layout, list": lambda: one.plan([0, 1]),
            "plan of the same layout, torch": lambda: one.plan(cu),
            "one row, torch, into an output": lambda: one.run(t1, t1, t1, out),
            "one row, operator that plans": lambda: torch_ops.self_attention(t1, t1, t1, cu),
            "one row, PyTorch's attention": lambda: sdpa(four, four, four),
        }.items():
            print(f"{name:<34}{best_us(call):6.2f}", flush=True)


if __name__ == "__main__":
    main()
