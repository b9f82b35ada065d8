#!/usr/bin/env python3
"""What one call from Python costs on the host: `build/venv/bin/python bench/python_overhead.py [--output F]`.

Calls that have nothing to compute (a plan of no tokens) leave the way through Python alone. Where torch
finds a GPU, one segment of 64 tokens is launched on it and not waited for, beside PyTorch's varlen_attn and
FlashAttention 3 (the wheel fa3-fwd, where it is installed) on the same tensors. Microseconds a call: best of
the rounds of 100 calls. `--output` writes a report with the machine's facts.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import time

import numpy as np
import ragged_attention as ra
import torch
from ragged_attention import torch_ops

# Short rounds fit into one time slice of a machine that is busy with other work.
ROUNDS, CALLS = 1000, 100
# Launches stay within a stream's queue, of 1,024: a full one would be waited for.
GPU_ROUNDS = 100


def best_us(call, rounds=ROUNDS, between=lambda: None):
    best = float("inf")
    for _ in range(rounds):
        between()
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
    between()
    return round(best / 1000, 2)


def on_cpu():
    def wrapper(tokens):
        made = ra.RaggedPrefillWrapper(1, 1, 8, device="cpu", q_data_type="fp32", threads=1)
        made.plan([0, tokens])
        return made

    none, one = wrapper(0), wrapper(1)
    t0, n0 = torch.zeros(0, 1, 8), np.zeros((0, 1, 8), np.float32)
    t1, cu = torch.randn(1, 1, 8), torch.tensor([0, 1], dtype=torch.int32)
    out = torch.empty_like(t1)
    four = t1.view(1, 1, 1, 8)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return {
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
    }


def on_gpu():
    def wrapper(tokens):
        made = ra.RaggedPrefillWrapper(8, 8, 64)
        made.plan([0, tokens])
        return made

    none, one = wrapper(0), wrapper(64)
    x0, x = (torch.randn(n, 8, 64, device="cuda").bfloat16() for n in (0, 64))
    cu = torch.tensor([0, 64], dtype=torch.int32, device="cuda")
    out = torch.empty_like(x)
    calls = {
        "no work, torch, into an output": lambda: none.run(x0, x0, x0, x0),
        "no work, torch, output made": lambda: none.run(x0, x0, x0),
        "64 tokens, run into an output": lambda: one.run(x, x, x, out),
        "64 tokens, run, output made": lambda: one.run(x, x, x),
        "64 tokens, operator that plans": lambda: torch_ops.self_attention(x, x, x, cu),
    }
    try:
        from torch.nn.attention.varlen import varlen_attn
        calls["64 tokens, PyTorch's varlen_attn"] = lambda: varlen_attn(x, x, x, cu, cu, 64, 64)
    except ImportError:
        print("no varlen_attn in this torch")
    try:
        from fa3_fwd_interface import flash_attn_varlen_func
        from ragged_attention.dense_wrappers import DenseRaggedPrefillWrapper
        dense = DenseRaggedPrefillWrapper(8, 8, 64)
        dense.plan([0, 64])
        calls["64 tokens, FlashAttention 3"] = lambda: flash_attn_varlen_func(x, x, x, cu, cu, 64, 64)
        calls["64 tokens, dense wrapper over it"] = lambda: dense.run(x, x, x)
    except ImportError:
        print("no fa3-fwd here")
    return calls


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def machine():
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy")}
    facts = {"cpu": cpu_name(), "facts": ra.device_facts(), "python": platform.python_version(), **versions}
    facts["backends"] = ra.built_backends()
    # Other work on the machine, in processes that want a core.
    facts["cores"], facts["load_before"] = os.cpu_count(), round(os.getloadavg()[0], 1)
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    try:
        facts["fa3-fwd"] = importlib.metadata.version("fa3-fwd")
    except importlib.metadata.PackageNotFoundError:
        pass
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, help="a report as JSON")
    chosen = parser.parse_args()
    suites = {"cpu": (on_cpu, {})}
    if torch.cuda.is_available() and {"sm80", "sm90"} & set(ra.built_backends()):
        suites["cuda"] = (on_gpu, {"rounds": GPU_ROUNDS, "between": torch.cuda.synchronize})
    report = {"machine": machine(), "us": {}}
    with torch.inference_mode():
        for device, (calls, how) in suites.items():
            report["us"][device] = {}
            for name, call in calls().items():
                report["us"][device][name] = us = best_us(call, **how)
                print(f"{device:<6}{name:<36}{us:7.2f}", flush=True)
    if chosen.output:
        chosen.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
