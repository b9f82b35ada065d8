"""What a GPU's rows have in common, the table and the plot made of them."""

import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import gpu_rules as rules  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402

try:
    import workload as workloads
except ImportError:  # no numpy
    workloads = None

MACHINE = {"gpu": "Maker's GPU", "driver": "1.2", "cuda_runtime": "13.0", "date": "2026-01-02"}
SVG = "{http://www.w3.org/2000/svg}"


def row(workload, provider, us, floor=10.0, **more):
    return {"workload": workload, "provider": provider, "dtype": "bf16", "us": us, "us_min": us,
            "us_max": us, "spread": 0.0, "sustained_us": 1.1 * us, "floor_us": floor, **more}


def ours(workload, us, **more):
    return row(workload, "ragged/sm90", us, plan_us=5.0, host_us=3.0, **more)


def example():
    rows = [ours("siglip-8", 20.0, goal_us=21.0, known_peer="fa4", known_peer_us=44.0),
            row("siglip-8", "torch", 60.0), row("siglip-8", "fa3", 40.0),
            ours("flux", 15.0, goal_us=12.0, known_peer="fa4", known_peer_us=14.0)]
    return {"machine": MACHINE, "rows": rows}


class Rules(unittest.TestCase):
    def setUp(self):
        if workloads is None:
            self.skipTest("numpy is not installed")
        self.cases = workloads.load(ROOT / "bench/workloads/models.json")

    def test_floors_are_those_of_the_goals(self):
        for name, goal in rules.goals().items():
            floor = rules.floor_us(self.cases[name])
            self.assertLessEqual(abs(floor - goal["floor_us"]), max(0.06, 0.01 * floor), name)

    def test_sets_rotate_past_the_cache_and_graphs_hold_whole_rounds(self):
        for name, case in self.cases.items():
            sets, runs = rules.input_sets(case), rules.runs_per_graph(case)
            self.assertGreaterEqual(sets, 2)
            if sets < rules.MOST_SETS:
                self.assertGreaterEqual(sets * case.size(2), rules.ROTATE_BYTES, name)
            self.assertGreaterEqual(runs, rules.LEAST_RUNS)
            self.assertEqual(runs % sets, 0, name)


class Reports(unittest.TestCase):
    def test_merges_rows_without_threads(self):
        merged = report.merge(example(), MACHINE, [row("flux", "fa3", 13.0), row("flux", "fa3", 12.0)])
        self.assertEqual([r["us"] for r in merged["rows"] if r["provider"] == "fa3"], [40.0, 12.0])
        with self.assertRaisesRegex(ValueError, "another machine: Maker's GPU"):
            report.merge(example(), {**MACHINE, "gpu": "another"}, [])

    def test_table_takes_the_fastest_peer_of_this_run_or_known(self):
        lines = rules.table(example()).splitlines()
        self.assertRegex(lines[1], r"^siglip-8 .* 20\.0 +50 +22\.0 +21\.0 +fa3 +40\.0 +2\.00 +44\.0")
        self.assertRegex(lines[2], r"^flux .* - +- +0\.93 +14\.0")
        # sqrt(2.00 * 0.93); siglip-8 alone is within its goal.
        self.assertRegex(lines[3], r"^2 workloads with a peer: 1\.37 x .*; goals met: 1$")

    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gpu.json"
            path.write_text(json.dumps(example()), encoding="utf-8")
            self.assertEqual(plot.main([str(path)]), 0)
            drawn = xml.etree.ElementTree.parse(path.with_suffix(".svg"))
            self.assertEqual(plot.main([str(path), "--dtype", "fp16"]), 2)
        words = [element.text for element in drawn.iter(f"{SVG}text")]
        self.assertIn("20.0 us, 2.00x", words)
        self.assertIn("15.0 us, 0.93x", words)
        self.assertIn("FlashAttention-3", words)
        # Two peers of this run, and FA4's known time on both workloads.
        self.assertEqual(len(list(drawn.iter(f"{SVG}circle"))), 4)


if __name__ == "__main__":
    unittest.main()
