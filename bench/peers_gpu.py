#!/usr/bin/env python3
"""Times what PyTorch and PyPI offer for attention over packed sequences on a GPU, into the report of
`ragged bench --device cuda`.

    python3 bench/peers_gpu.py --json report.json

The same workloads, inputs rotated alike, graphs of as many calls, the same duty cycles. Every result
is checked against double precision before it is timed. A library that is not here is named.
"""

import argparse
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gpu_rules as rules  # noqa: E402
import report as reports  # noqa: E402


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, metavar="FILE", help="report to write or add to")
    parser.add_argument("--names", default="", help="comma-separated; default: every workload")
    parser.add_argument("--providers", default="torch,fa3,fa4,flashinfer,cudnn",
                        help="comma-separated (default: %(default)s)")
    parser.add_argument("--sustained", type=float, default=rules.SUSTAINED_SECONDS, metavar="S",
                        help="seconds without a pause for each row (default: %(default)s)")
    parser.add_argument("--bursts", type=int, default=rules.BURSTS,
                        help="short bursts for each row, each after idling (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=1e9, metavar="S",
                        help="begin no workload after so many seconds")
    return parser.parse_args(arguments)


def make_sets(torch, case):
    """Rotated q, k, v of normal values in bf16."""
    def tensor(tokens, heads):
        return torch.randn(tokens, heads, case.head_dim, device="cuda", dtype=torch.bfloat16)
    tokens, keys = sum(case.q_lengths), sum(case.kv_lengths)
    return [(tensor(tokens, case.num_qo_heads), tensor(keys, case.num_kv_heads),
             tensor(keys, case.num_kv_heads)) for _ in range(rules.input_sets(case))]


def relative_error(torch, case, q, k, v, out):
    """The worst of some rows, each over all of its heads, against double precision."""
    if not bool(torch.isfinite(out).all()):
        return float("inf")
    worst, group = 0.0, case.num_qo_heads // case.num_kv_heads
    q_begin = kv_begin = 0
    last = len(case.q_lengths) - 1
    for i, (q_len, kv_len) in enumerate(zip(case.q_lengths, case.kv_lengths)):
        rows = {0, q_len // 2, q_len - 1} if i in (0, last // 2, last) and q_len else ()
        for row in rows:
            import numpy as np
            end = kv_begin + int(case.visible_end(np.array(row), i))
            if end == kv_begin:
                continue
            keys = k[kv_begin:end].double().repeat_interleave(group, 1)
            values = v[kv_begin:end].double().repeat_interleave(group, 1)
            scores = torch.einsum("hd,khd->hk", q[q_begin + row].double(), keys)
            weights = (scores * case.head_dim**-0.5).softmax(1)
            right = torch.einsum("hk,khd->hd", weights, values)
            error = (out[q_begin + row].double() - right).norm() / right.norm()
            worst = max(worst, error.item())
        q_begin, kv_begin = q_begin + q_len, kv_begin + kv_len
    return worst


class Timer:
    """Graph replays on one stream, as tools/measure_gpu times ours."""

    def __init__(self, torch, calls, body):
        self.torch = torch
        self.graph = torch.cuda.CUDAGraph()
        self.calls = calls
        with torch.cuda.graph(self.graph):
            for i in range(calls):
                body(i)
        self.graph.replay()
        torch.cuda.synchronize()

    def events(self, count):
        return [self.torch.cuda.Event(enable_timing=True) for _ in range(count)]

    def once(self):
        begin, end = self.events(2)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)

    def burst(self):
        """Microseconds of one call each."""
        self.torch.cuda.synchronize()
        time.sleep(rules.IDLE_SECONDS)
        self.graph.replay()
        times = []
        while len(times) < rules.MOST_REPLAYS and (
                len(times) < rules.LEAST_REPLAYS or sum(times) < rules.MOST_BURST_US):
            times.append(self.once())
        return [us / self.calls for us in times]

    def sustained(self, seconds):
        once = self.once()
        together = 1 + int(rules.LEAST_SAMPLE_US / once)
        marks = self.events(3 + int(seconds * 1e6 / (once * together)))
        marks[0].record()
        for mark in marks[1:]:
            for _ in range(together):
                self.graph.replay()
            mark.record()
        marks[-1].synchronize()
        half = len(marks) // 2
        return statistics.median(
            1e3 * a.elapsed_time(b) / together / self.calls
            for a, b in zip(marks[half - 1:], marks[half:]))


def host_us(torch, body, floor):
    """Microseconds of the host to start a call."""
    ahead = min(max(int(50e3 / max(floor, 1.0)), 1), rules.RUNS_AHEAD)
    samples = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(ahead):
            body(i)
        samples.append(1e6 * (time.perf_counter() - start) / ahead)
    torch.cuda.synchronize()
    return statistics.median(samples)


def measure(torch, options, name, case, sets, peer):
    """One row. Raises what the peer raises, and Declined."""
    import gpu_peers
    call = peer.prepare(torch, case)
    out = call(*sets[0])
    torch.cuda.synchronize()
    error = relative_error(torch, case, *sets[0], out)
    tolerance = rules.TOLERANCE["bf16"]
    if not error <= tolerance:
        raise gpu_peers.Declined(f"wrong: relative error {error:.1e}")
    body = lambda i: call(*sets[i % len(sets)])  # noqa: E731
    for i in range(len(sets)):
        body(i)
    floor, runs = rules.floor_us(case), rules.runs_per_graph(case)
    host = host_us(torch, body, floor)
    timer = Timer(torch, runs, body)
    times = [us for _ in range(options.bursts) for us in timer.burst()]
    us = statistics.median(times)
    known = rules.goals().get(name, {})
    return {"workload": name, "provider": peer.name, "version": peer.version, "dtype": "bf16",
            "us": us, "us_min": min(times), "us_max": max(times), "spread": reports.spread(times),
            "sustained_us": timer.sustained(options.sustained) if options.sustained > 0 else 0,
            "floor_us": floor, "goal_us": known.get("goal_us"), "host_us": host,
            "tflops": case.flops / us / 1e6, "gbps": case.size(2) / us / 1e3,
            "input_sets": len(sets), "runs_per_graph": runs, "relative_error": error,
            "tolerance": tolerance, "device": "cuda:0"}


def machine_of(torch):
    """Where there is no report of ours yet."""
    properties = torch.cuda.get_device_properties(0)
    return {"gpu": properties.name, "sm_count": properties.multi_processor_count,
            "memory_bytes": properties.total_memory, "cuda_runtime": torch.version.cuda,
            "date": time.strftime("%Y-%m-%d", time.gmtime())}


def main(arguments=None):
    options = parse(arguments)
    try:
        import torch
        import workload as workloads
    except ImportError as error:
        print(f"peers_gpu: {error}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("peers_gpu: PyTorch sees no GPU", file=sys.stderr)
        return 2
    import gpu_peers
    cases = workloads.load(HERE / "workloads/models.json")
    for what, given, known in (("--names", options.names, cases),
                               ("--providers", options.providers, gpu_peers.PEERS)):
        for name in filter(None, given.split(",")):
            if name not in known:
                print(f"peers_gpu: {what} has no '{name}'; known: {', '.join(known)}",
                      file=sys.stderr)
                return 2
    peers = []
    for name in options.providers.split(","):
        try:
            peers.append(gpu_peers.PEERS[name]())
        except Exception as error:  # a broken installation costs its own rows only
            print(f"peers_gpu: {name} is missing: {str(error).splitlines()[0]}", file=sys.stderr)
    torch.manual_seed(1)
    started, rows = time.time(), []
    for name in options.names.split(",") if options.names else cases:
        if time.time() - started > options.limit:
            print(f"peers_gpu: {options.limit:.0f} s are over before {name}", file=sys.stderr)
            break
        sets = make_sets(torch, cases[name])
        for peer in peers:
            try:
                row = measure(torch, options, name, cases[name], sets, peer)
                rows.append(row)
                print(f"{name:22} {peer.name:14} {row['us']:9.1f} us, sustained "
                      f"{row['sustained_us']:9.1f}, {100 * row['floor_us'] / row['us']:3.0f} % of the "
                      f"floor", flush=True)
            except gpu_peers.Declined as reason:
                print(f"{name:22} {peer.name:14} {reason}", flush=True)
            except Exception as error:  # whatever a library throws costs its own row only
                print(f"{name:22} {peer.name:14} {type(error).__name__}: "
                      f"{(str(error).splitlines() or [''])[0][:120]}", flush=True)
        del sets
        torch.cuda.empty_cache()
    merged = reports.load(options.json)
    reports.save(options.json, reports.merge(merged, merged["machine"] or machine_of(torch), rows))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
