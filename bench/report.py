"""A benchmark report: one machine, and one row for each (workload, provider, threads, dtype).

A GPU's rows have no threads.
"""

import json
import os
import pathlib
import statistics
import sys

KEY = ("workload", "provider", "threads", "dtype")


def load(path):
    """The report at `path`, or an empty one where there is none yet."""
    path = pathlib.Path(path)
    if not path.exists():
        return {"machine": None, "rows": []}
    report = json.loads(path.read_text(encoding="utf-8"))
    missing = {"machine", "rows"} - report.keys()
    if missing:
        raise ValueError(f"{path}: expected the fields machine and rows; {sorted(missing)} is missing")
    return report


def key_of(row):
    return tuple(row.get(name) for name in KEY)


def same_machine(a, b):
    """True if two machine objects describe the same kind of machine."""
    names = ("vendor", "family", "model", "stepping", "cores", "simd", "gpu")
    return all(a.get(name) == b.get(name) for name in names)


def name_of(machine):
    if "gpu" in machine:
        return machine["gpu"]
    return f"{machine.get('model_name')} family {machine.get('family')} model {machine.get('model')}"


def merge(report, machine, rows):
    """`report` with `rows` added; a row of the same key is replaced, in its place.

    Raises ValueError where the report is of another kind of machine: its percentages would not
    compare.
    """
    if report["machine"] and machine and not same_machine(report["machine"], machine):
        raise ValueError("the report is of another machine: "
                         f"{name_of(report['machine'])}; write a report of its own")
    merged = {key_of(row): row for row in report["rows"]}
    merged.update({key_of(row): row for row in rows})
    return {**report, "machine": report["machine"] or machine, "rows": list(merged.values())}


def save(path, report):
    """Writes one row a line, whole or not at all."""
    path = pathlib.Path(path)
    fields = [f"{json.dumps(name)}: {json.dumps(value)}"
              for name, value in report.items() if name != "rows"]
    rows = ",\n".join("  " + json.dumps(row) for row in report["rows"])
    text = "{" + ",\n".join([*fields, '"rows": [\n' + rows + "\n]"]) + "}\n"
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def spread(values):
    """(upper quartile - lower quartile) / median; 0 for fewer than 4 values."""
    if len(values) < 4:
        return 0.0
    values, quarter = sorted(values), len(values) // 4
    return (values[-1 - quarter] - values[quarter]) / statistics.median(values)


def make_row(key, us, peaks, flops, size, **more):
    """A row from samples: `us` of one run each, `peaks` in GFLOP/s beside each sample.

    `key` holds the fields of KEY; flops and size (bytes of q, k, v and out) are of one run.
    """
    middle = statistics.median(us)
    percent = [1e-3 * flops / value / peak * 100 for value, peak in zip(us, peaks)]
    return {
        **key, "us": middle, "us_min": min(us), "us_max": max(us), "spread": spread(us),
        "gflops": 1e-3 * flops / middle, "percent_of_peak": statistics.median(percent),
        "peak_gflops": statistics.median(peaks), "gbps": 1e-3 * size / middle,
        "samples": len(us), **more,
    }


def main(arguments):
    """report.py INTO.json PART.json...: merges parts of one machine's report; a later row replaces an earlier one."""
    if len(arguments) < 2:
        print("usage: report.py INTO.json PART.json...", file=sys.stderr)
        return 2
    into, *parts = arguments
    merged = load(into)
    for path in parts:
        part = load(path)
        if not merged["rows"]:
            merged = part
            continue
        merged = merge(merged, part["machine"], part["rows"])
    save(into, merged)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
