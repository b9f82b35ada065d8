#!/usr/bin/env python3
"""Times what PyPI offers for CPU attention on the workloads of `ragged bench`, into the same report.

    python3 -m venv .venv && .venv/bin/pip install -r bench/requirements-peers.txt
    .venv/bin/python bench/peers_cpu.py --json report.json

Every result is checked against double precision before it is timed. Every sample stands between two
probes of the FMA peak. Each framework and thread count runs in a process of its own, so that one
thread pool never spins beside another.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import report  # noqa: E402

LIMIT = {"fp32": 2e-4, "bf16": 5e-2, "fp16": 5e-3}  # absolute error on normal inputs
SAMPLE_US = 2000.0  # shorter runs are repeated within a sample
MOST_SETS = 64
MOST_SAMPLES = 50
# Pools of other libraries go on spinning after a call, beside the probe: up to 47 ms were seen.
SETTLE_SECONDS = 0.06


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, metavar="FILE", help="report to write or add to")
    parser.add_argument("--workloads", default=HERE / "workloads/cpu.json", metavar="FILE",
                        help="list of workloads (default: %(default)s)")
    parser.add_argument("--names", default="", help="comma-separated; default: every workload")
    parser.add_argument("--providers", default="onnxruntime,openvino,torch",
                        help="comma-separated (default: %(default)s)")
    parser.add_argument("--threads", default="1,2", help="comma-separated (default: %(default)s)")
    parser.add_argument("--dtypes", default="fp32", help="comma-separated: fp32, bf16, fp16")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="of samples for each row, once there are three (default: %(default)s)")
    parser.add_argument("--probe", metavar="FILE", help="the probe library; default: found in build/")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rotate-bytes", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def rotation_bytes(machine):
    """Inputs and outputs that runs rotate through: twice the last-level cache, or an eighth of the
    memory where that is less."""
    last_level = max((cache["bytes"] for cache in machine["caches"]), default=0)
    return min(2 * last_level, machine["memory_bytes"] // 8)


def timed(call, sets, probe, threads, limit_seconds):
    """([us of one run], [GFLOP/s of the peak beside it], runs of one sample)."""
    def settle():
        if threads > 1:
            time.sleep(SETTLE_SECONDS)

    index = 0

    def sample(repeats):
        nonlocal index
        start = time.perf_counter()
        for _ in range(repeats):
            index = (index + 1) % sets
            call(index)
        return 1e6 * (time.perf_counter() - start) / repeats

    repeats = max(1, math.ceil(SAMPLE_US / sample(1)))
    sample(sets)  # touches the pages of every set for the first time
    us, peaks = [], []
    settle()
    before = probe.peak_gflops(threads)
    while len(us) < MOST_SAMPLES and (len(us) < 3 or sum(us) * repeats < limit_seconds * 1e6):
        us.append(sample(repeats))
        settle()
        after = probe.peak_gflops(threads)
        peaks.append((before + after) / 2)
        before = after
    return us, peaks, repeats


def measure(options, name, provider, threads, dtype):
    """The row of the framework's fastest way that gives right results."""
    import frameworks
    import workload as workloads
    from probe import Probe
    case = workloads.load(options.workloads)[name]
    probe = Probe(options.probe)
    size = case.size(4 if dtype == "fp32" else 2)
    first = workloads.inputs(case)
    count = min(MOST_SETS, max(1, math.ceil(options.rotate_bytes / size)))
    sets = [first] + [[x.copy() for x in first] for _ in range(count - 1)]
    best = None
    for variant, call, checked in frameworks.FRAMEWORKS[provider](case, sets, threads, dtype):
        error = workloads.max_error(case, *first, checked())
        if not error <= LIMIT[dtype]:
            print(f"{name} {provider} {variant}: wrong by {error:.3g}; left out", file=sys.stderr)
            continue
        us, peaks, repeats = timed(call, count, probe, threads, options.seconds)
        key = {"workload": name, "provider": provider, "version": frameworks.version(provider),
               "variant": variant, "threads": threads, "dtype": dtype}
        row = report.make_row(
            key, us, peaks, case.flops, size, device="cpu", probe_simd=probe.simd,
            runs_per_sample=repeats, input_sets=count, max_error=error, tolerance=LIMIT[dtype])
        if best is None or row["us"] < best["us"]:
            best = row
    if best is None:
        raise frameworks.Declined("no variant gave a right result")
    return best


def work(options, names):
    """A worker: prints one JSON row a line."""
    import frameworks
    (provider,), (threads,) = options.providers.split(","), options.threads.split(",")
    for dtype in options.dtypes.split(","):
        for name in names:
            try:
                row = measure(options, name, provider, int(threads), dtype)
                print(json.dumps(row), flush=True)
            except frameworks.Declined as reason:
                print(f"{name} {provider} {dtype}: {reason}", file=sys.stderr)
            except Exception as error:  # whatever a framework throws costs its own row only
                print(f"{name} {provider} {dtype}: {type(error).__name__}: "
                      f"{str(error).splitlines()[0] if str(error) else ''}", file=sys.stderr)


def main(arguments=None):
    options = parse(arguments)
    try:
        import frameworks
        import workload as workloads
        from probe import Probe
    except ImportError as error:
        print(f"peers_cpu: {error}; install bench/requirements-peers.txt", file=sys.stderr)
        return 2
    known = list(workloads.load(options.workloads))
    names = options.names.split(",") if options.names else known
    for what, given, allowed in (("--names", names, known),
                                 ("--providers", options.providers.split(","), frameworks.FRAMEWORKS),
                                 ("--dtypes", options.dtypes.split(","), LIMIT)):
        for name in given:
            if name not in allowed:
                print(f"peers_cpu: {what} has no '{name}'; known: {', '.join(allowed)}",
                      file=sys.stderr)
                return 2
    if options.worker:
        work(options, names)
        return 0

    merged = report.load(options.json)
    machine = merged["machine"] or Probe(options.probe).machine()
    rotate = options.rotate_bytes or rotation_bytes(machine)
    added = 0
    for provider in options.providers.split(","):
        if frameworks.version(provider) is None:
            print(f"peers_cpu: {provider} is not installed; left out", file=sys.stderr)
            continue
        for threads in options.threads.split(","):
            command = [sys.executable, __file__, "--worker", "--json", options.json,
                       "--workloads", str(options.workloads), "--names", ",".join(names),
                       "--providers", provider, "--threads", threads, "--dtypes", options.dtypes,
                       "--seconds", str(options.seconds), "--rotate-bytes", str(rotate)]
            command += ["--probe", options.probe] if options.probe else []
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
                for line in worker.stdout:
                    row = json.loads(line)
                    print(f"{row['workload']} {provider} {row['threads']} threads {row['dtype']}: "
                          f"{row['us']:.0f} us, {row['gflops']:.1f} GFLOP/s, "
                          f"{row['percent_of_peak']:.1f} % of peak", flush=True)
                    merged = report.merge(merged, machine, [row])
                    added += 1
            if worker.returncode != 0:
                print(f"peers_cpu: {provider} with {threads} threads ended with {worker.returncode}",
                      file=sys.stderr)
            report.save(options.json, merged)
    return 0 if added else 1


if __name__ == "__main__":
    sys.exit(main())
