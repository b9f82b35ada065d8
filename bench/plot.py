#!/usr/bin/env python3
"""Draws a report of `ragged bench` as SVG: how much of the machine each provider uses.

    python3 bench/plot.py REPORT.json [--threads 1] [--dtype fp32] [--out PLOT.svg]

Python's own library is enough. One group of bars a workload, in % of the FMA peak measured beside
each sample; workloads that memory limits, in % of plain reads, stand apart. A GPU's report is drawn
by plot_gpu.py: one line a workload, in multiples of the floor.
"""

import argparse
import html
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gpu_rules  # noqa: E402
import report as reports  # noqa: E402

OURS = "ragged"
# Ours stands out; peers share one family of greys and blues, told apart by the legend's order.
COLORS = {OURS: "#d9480f", "onnxruntime": "#1c4e80", "openvino": "#4f86c6", "torch": "#9dbfe3",
          "openblas-q128": "#8a8f98", "libxsmm": "#c3c7cd"}
SPARE_COLORS = ["#6b5b95", "#88b04b", "#955251", "#009b77"]
NAMES = {OURS: "Ragged Attention", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO",
         "torch": "PyTorch", "openblas-q128": "OpenBLAS + softmax", "libxsmm": "libxsmm + softmax"}
# Below this many flops a byte of q, k, v and out, reading is the limit on every current CPU.
MEMORY_BOUND = 4.0

WIDTH, HEIGHT = 1000, 430
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 96, 62
GAP = 0.28  # of a group's width, between groups


def provider_of(row):
    """ "ragged/cpu" is ours; the backend is the explanation's business."""
    return row["provider"].split("/")[0]


def memory_bound(row):
    return row["gflops"] < MEMORY_BOUND * row["gbps"]


def read_gbps(machine, threads):
    """GB/s of plain reads of the largest probed size, for the nearest probed thread count."""
    rates = machine["read_gbps"][max(machine["read_gbps"], key=int)]
    return rates[min(rates, key=lambda count: abs(int(count) - threads))]


def percent(row, machine):
    if memory_bound(row):
        return 100.0 * row["gbps"] / read_gbps(machine, row["threads"])
    return row["percent_of_peak"]


def select(report, threads, dtype):
    """{workload: {provider: row}}, in the report's order, memory-bound workloads last.

    The best row where a provider has several. Raises ValueError where there is nothing to draw.
    """
    groups = {}
    for row in report["rows"]:
        if row["threads"] != threads or row["dtype"] != dtype:
            continue
        group = groups.setdefault(row["workload"], {})
        provider = provider_of(row)
        if provider not in group or row["us"] < group[provider]["us"]:
            group[provider] = row
    if not groups:
        raise ValueError(f"no row with {threads} threads and {dtype}; the report has " + ", ".join(
            sorted({f"{row['threads']} and {row['dtype']}" for row in report["rows"]})))
    order = sorted(groups, key=lambda name: any(map(memory_bound, groups[name].values())))
    return {name: groups[name] for name in order}


def models():
    """Workload -> the model whose shape it is."""
    listed = {}
    for path in sorted((HERE / "workloads").glob("*.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))
        for entry in entries if isinstance(entries, list) else []:
            listed[entry["name"]] = entry.get("model", "")
    return listed


def text(x, y, words, size=12, anchor="middle", weight="normal", color="#333"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" fill="{color}">{html.escape(words)}</text>')


def two_lines(words, limit=15):
    """Cuts a label at the space nearest its middle where it is longer than `limit`."""
    spaces = [i for i, c in enumerate(words) if c == " "]
    if len(words) <= limit or not spaces:
        return [words]
    cut = min(spaces, key=lambda i: abs(i - len(words) / 2))
    return [words[:cut], words[cut + 1:]]


def legend(providers, color):
    parts, x = [], LEFT
    for provider in providers:
        name = NAMES.get(provider, provider)
        parts.append(f'<rect x="{x}" y="58" width="12" height="12" rx="2" fill="{color[provider]}"/>')
        parts.append(text(x + 17, 68.5, name, 12.5, "start",
                          "bold" if provider == OURS else "normal"))
        x += 32 + 7.2 * len(name)
    return parts


def bars(rows, providers, color, machine, x, width, scale):
    """One workload's bars; figures above ours and above the best peer."""
    parts = []
    present = [provider for provider in providers if provider in rows]
    values = {provider: percent(rows[provider], machine) for provider in present}
    best_peer = max((p for p in present if p != OURS), key=values.get, default=None)
    step = width / len(providers)
    x += (width - step * len(present)) / 2
    for index, provider in enumerate(present):
        left, height = x + index * step, scale(min(values[provider], 100.0))
        top = HEIGHT - BOTTOM - height
        parts.append(f'<rect x="{left + 0.5:.1f}" y="{top:.1f}" width="{step - 1:.1f}" '
                     f'height="{height:.1f}" fill="{color[provider]}"><title>'
                     f'{html.escape(NAMES.get(provider, provider))}: {values[provider]:.1f} %, '
                     f'{rows[provider]["us"]:.0f} us</title></rect>')
        if provider in (OURS, best_peer):
            ours = provider == OURS
            parts.append(text(left + step / 2, top - 4, f"{values[provider]:.0f}",
                              13 if ours else 11, weight="bold" if ours else "normal",
                              color=color[OURS] if ours else "#555"))
    return parts


def draw(report, threads, dtype):
    """The plot as SVG text."""
    machine, groups = report["machine"], select(report, threads, dtype)
    providers = [name for name in COLORS if any(name in rows for rows in groups.values())]
    others = sorted({p for rows in groups.values() for p in rows} - set(providers))
    color = {**COLORS, **dict(zip(others, SPARE_COLORS * len(others)))}
    providers += others
    model_of = models()

    plot_height = HEIGHT - TOP - BOTTOM
    def scale(value):
        return plot_height * value / 100.0

    simd = {"avx512": "AVX-512", "avx2": "AVX2", "neon": "NEON"}.get(machine["simd"], machine["simd"])
    core = f"{threads} thread{'s' if threads > 1 else ''}"
    title = f"CPU attention over packed sequences, {dtype}, {core}: % of the machine's FMA peak"
    where = (f"{machine['model_name'] or machine['vendor']} (family {machine['family']}, model "
             f"{machine['model']}), {simd}; every sample between two probes of the peak")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        text(LEFT, 26, title, 16, "start", "bold"), text(LEFT, 45, where, 11.5, "start", color="#666"),
        *legend(providers, color)]
    for value in range(0, 101, 20):
        y = HEIGHT - BOTTOM - scale(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                     f'stroke="{"#999" if value == 0 else "#e3e3e3"}"/>')
        parts.append(text(LEFT - 8, y + 4, f"{value} %", 11, "end", color="#666"))
    width = (WIDTH - LEFT - RIGHT) / len(groups)
    for index, (name, rows) in enumerate(groups.items()):
        x = LEFT + index * width
        parts += bars(rows, providers, color, machine, x + width * GAP / 2, width * (1 - GAP), scale)
        parts.append(text(x + width / 2, HEIGHT - BOTTOM + 17, name, 12.5, weight="bold"))
        lines = two_lines(model_of.get(name, ""))
        if any(map(memory_bound, rows.values())):
            lines = [*lines[:1], "% of plain reads"]
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - 10}" '
                         'stroke="#bbb" stroke-dasharray="3 3"/>')
        parts += [text(x + width / 2, HEIGHT - BOTTOM + 32 + 13 * i, line, 10.5, color="#555")
                  for i, line in enumerate(lines)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", metavar="REPORT.json")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", help="default: fp32, or bf16 on a GPU")
    parser.add_argument("--out", metavar="PLOT.svg", help="default: beside the report")
    options = parser.parse_args(arguments)
    try:
        report = reports.load(options.report)
        if gpu_rules.is_gpu(report):
            import plot_gpu
            drawn = plot_gpu.draw(report, options.dtype or "bf16")
        else:
            drawn = draw(report, options.threads, options.dtype or "fp32")
    except ValueError as error:
        print(f"plot: {error}", file=sys.stderr)
        return 2
    out = pathlib.Path(options.out or pathlib.Path(options.report).with_suffix(".svg"))
    out.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
