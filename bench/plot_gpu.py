"""The SVG of a GPU's report: one line a workload, on a scale of multiples of the floor, with ours, the
goal and every peer. `plot.py` calls it.
"""

import math

import gpu_rules as rules
from plot import COLORS, OURS, models, text

PEER_NAMES = {"torch": "PyTorch varlen (FlashAttention-2)", "fa3": "FlashAttention-3",
              "fa4": "FlashAttention-4", "flashinfer": "FlashInfer", "cudnn": "cuDNN"}
PEER_COLORS = {"torch": "#9dbfe3", "fa3": "#1c4e80", "fa4": "#4f86c6", "flashinfer": "#6b5b95",
               "cudnn": "#8a8f98"}
WIDTH, LINE, LEFT, RIGHT, TOP, BOTTOM = 1000, 21, 176, 126, 104, 22
MOST = 16.0  # multiples of the floor that the scale reaches


def place(ratio):
    """x of a multiple of the floor, on a logarithmic scale."""
    span = WIDTH - LEFT - RIGHT
    return LEFT + span * math.log(min(max(ratio, 0.9), MOST) / 0.9) / math.log(MOST / 0.9)


def microseconds(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def workload_line(name, model, rows, y):
    ours = rules.best(rows, rules.ours)
    floor = ours["floor_us"]
    parts = [text(LEFT - 10, y + 4, name, 11.5, "end", "bold")]
    x = place(ours["us"] / floor)
    parts.append(f'<rect x="{place(1):.1f}" y="{y - 6:.1f}" width="{max(x - place(1), 1):.1f}" '
                 f'height="12" fill="{COLORS[OURS]}"><title>{name} ({model}): '
                 f'{microseconds(ours["us"])} us, {ours["us"] / floor:.2f} x the floor</title></rect>')
    if ours.get("sustained_us"):
        at = place(ours["sustained_us"] / floor)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 6:.1f}" y2="{y + 6:.1f}" '
                     f'stroke="#7c2d06" stroke-width="2"><title>sustained: '
                     f'{microseconds(ours["sustained_us"])} us</title></line>')
    if ours.get("goal_us"):
        at = place(ours["goal_us"] / floor)
        parts.append(f'<path d="M{at:.1f} {y - 8:.1f} l4 -5 h-8 z" fill="#222"><title>goal: '
                     f'{microseconds(ours["goal_us"])} us</title></path>')
    known = ours.get("known_peer")
    if known and known not in rows:
        at = place(ours["known_peer_us"] / floor)
        parts.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4" fill="#fff" stroke="'
                     f'{PEER_COLORS.get(known, "#555")}" stroke-width="2"><title>{known}, another run: '
                     f'{microseconds(ours["known_peer_us"])} us</title></circle>')
    for provider, row in rows.items():
        if rules.ours(row):
            continue
        parts.append(f'<circle cx="{place(row["us"] / floor):.1f}" cy="{y:.1f}" r="4.5" '
                     f'fill="{PEER_COLORS.get(provider, "#555")}"><title>'
                     f'{PEER_NAMES.get(provider, provider)}: {microseconds(row["us"])} us</title>'
                     '</circle>')
    peer = rules.best(rows, lambda row: not rules.ours(row))
    fastest = min(filter(None, (peer and peer["us"], ours.get("known_peer_us"))), default=None)
    label = f"{microseconds(ours['us'])} us"
    if fastest:
        label += f", {fastest / ours['us']:.2f}x"
    parts.append(text(WIDTH - RIGHT + 8, y + 4, label, 11, "start", color=COLORS[OURS]))
    return parts


def legend(providers):
    parts, x = [], LEFT
    entries = [("Ragged Attention (sustained: dark edge)", COLORS[OURS])]
    entries += [(PEER_NAMES.get(name, name), PEER_COLORS.get(name, "#555")) for name in providers]
    entries += [("goal", "#222")]
    for name, color in entries:
        parts.append(f'<rect x="{x}" y="56" width="11" height="11" rx="2" fill="{color}"/>')
        parts.append(text(x + 16, 66, name, 11.5, "start"))
        x += 30 + 6.3 * len(name)
    return parts


def draw(report, dtype):
    """The plot as SVG text. Raises ValueError where there is nothing of ours to draw."""
    groups = {name: rows for name, rows in rules.by_workload(report, dtype).items()
              if rules.best(rows, rules.ours)}
    if not groups:
        raise ValueError(f"no row of ours in {dtype}")
    height = TOP + LINE * len(groups) + BOTTOM
    machine, model_of = report["machine"], models()
    found = {p for rows in groups.values() for p, row in rows.items() if not rules.ours(row)}
    providers = [name for name in PEER_NAMES if name in found] + sorted(found - set(PEER_NAMES))
    where = (f"{machine['gpu']}, driver {machine.get('driver') or 'unknown'}, CUDA "
             f"{machine.get('cuda_runtime')}, {machine.get('date')}; short bursts, medians; right: us, "
             "and times faster than the best peer")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
        text(16, 26, f"GPU attention over packed sequences, {dtype}: multiples of the floor", 16,
             "start", "bold"),
        text(16, 44, where, 11.5, "start", color="#666"), *legend(providers)]
    for ratio in (1, 1.5, 2, 3, 5, 8, 12, 16):
        x = place(ratio)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 12}" y2="{height - BOTTOM}" '
                     f'stroke="{"#999" if ratio == 1 else "#e3e3e3"}"/>')
        parts.append(text(x, TOP - 17, f"{ratio:g}x", 11, color="#666"))
    for index, (name, rows) in enumerate(groups.items()):
        parts += workload_line(name, model_of.get(name, ""), rows, TOP + LINE * (index + 0.5))
    return "\n".join([*parts, "</svg>"]) + "\n"
