"""What a GPU's rows have in common, whoever is timed: floor, rotation, duty cycles."""

import json
import math
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent

# As measured on an H200: a bf16 matrix product of 8192 x 8192 x 8192, and a device copy.
FLOPS_PER_US = 783e6
BYTES_PER_US = 4.21e6

# The same as tools/measure_gpu.
ROTATE_BYTES = 150_000_000
MOST_SETS = 64
LEAST_RUNS, MOST_RUNS = 4, 256
LEAST_GRAPH_US = 400.0
IDLE_SECONDS, BURSTS, SUSTAINED_SECONDS = 0.3, 2, 0.5
LEAST_REPLAYS, MOST_REPLAYS, MOST_BURST_US = 3, 10, 60e3
LEAST_SAMPLE_US = 500.0
RUNS_AHEAD = 32
TOLERANCE = {"bf16": 1e-2, "fp16": 1.5e-3, "fp32": 1e-5}


def floor_us(workload):
    """What no kernel passes: useful arithmetic, or q, k, v and out once each."""
    return max(workload.flops / FLOPS_PER_US, workload.size(2) / BYTES_PER_US)


def input_sets(workload):
    return min(MOST_SETS, max(2, math.ceil(ROTATE_BYTES / workload.size(2))))


def runs_per_graph(workload):
    wanted = min(max(LEAST_RUNS, LEAST_GRAPH_US / max(floor_us(workload), 0.1)), MOST_RUNS)
    sets = input_sets(workload)
    return math.ceil(wanted / sets) * sets


def goals():
    """Workload -> floor, best known peer and goal on an H200."""
    return json.loads((HERE / "workloads/h200-goals.json").read_text(encoding="utf-8"))


def is_gpu(report):
    return bool(report["machine"]) and "gpu" in report["machine"]


def ours(row):
    return row["provider"].startswith("ragged/")


def by_workload(report, dtype="bf16"):
    """{workload: {provider: row}} in the report's order."""
    groups = {}
    for row in report["rows"]:
        if row["dtype"] == dtype:
            groups.setdefault(row["workload"], {})[row["provider"]] = row
    return groups


def best(rows, which):
    """The fastest row for which `which` holds, or None."""
    return min((row for row in rows.values() if which(row)), key=lambda row: row["us"], default=None)


def table(report, dtype="bf16"):
    """A short table: ours, the best peer of this run, and what is known."""
    lines = [f"{'workload':22} {'ours':13} {'us':>9} {'% floor':>7} {'sust. us':>9} {'goal us':>8} "
             f"{'best peer':>16} {'peer us':>9} {'x peer':>6} {'known':>9} {'plan':>6} {'host':>5}"]
    ratios, met = [], 0
    for name, rows in by_workload(report, dtype).items():
        row, peer = best(rows, ours), best(rows, lambda r: not ours(r))
        if row is None:
            continue
        known = row.get("known_peer_us")
        fastest = min(filter(None, (peer and peer["us"], known)), default=None)
        if fastest:
            ratios.append(fastest / row["us"])
        met += bool(row.get("goal_us")) and row["us"] <= row["goal_us"]
        show = lambda value: f"{value:.1f}" if value else "-"  # noqa: E731
        lines.append(
            f"{name:22} {row['provider'].split('/')[1]:13} {row['us']:9.1f} "
            f"{100 * row['floor_us'] / row['us']:7.0f} {show(row['sustained_us']):>9} "
            f"{show(row.get('goal_us')):>8} {peer['provider'] if peer else '-':>16} "
            f"{show(peer and peer['us']):>9} {fastest / row['us'] if fastest else 0:6.2f} "
            f"{show(known):>9} {row['plan_us']:6.1f} {row['host_us']:5.1f}")
    if ratios:
        lines.append(f"{len(ratios)} workloads with a peer: {statistics.geometric_mean(ratios):.2f} x "
                     f"the best of each (geometric mean); goals met: {met}")
    return "\n".join(lines)
