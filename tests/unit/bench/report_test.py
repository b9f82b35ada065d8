"""The shape of a report, merging, and the plot made of it."""

import copy
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import plot  # noqa: E402
import report  # noqa: E402

MACHINE = {"vendor": "Maker", "model_name": "A & B", "family": "6", "model": "1", "stepping": "2",
           "cores": 2, "simd": "avx2", "caches": [], "memory_bytes": 1 << 33,
           "read_gbps": {"1024": {"1": 90.0}, "1048576": {"1": 10.0, "2": 20.0}}}
SVG = "{http://www.w3.org/2000/svg}"


def row(workload="W1", provider="ragged/cpu", threads=1, percent=50.0, size=1e6, flops=1e9):
    key = {"workload": workload, "provider": provider, "threads": threads, "dtype": "fp32"}
    us = 1e-3 * flops / percent  # with a peak of 100 GFLOP/s
    return report.make_row(key, [us] * 3, [100.0] * 3, flops, size)


class Rows(unittest.TestCase):
    def test_figures_of_a_row(self):
        made = report.make_row({"workload": "W", "provider": "p", "threads": 1, "dtype": "fp32"},
                               [100.0, 300.0, 200.0], [50.0, 150.0, 100.0], 2e6, 4e5, max_error=1e-6)
        self.assertEqual((made["us"], made["us_min"], made["us_max"]), (200.0, 100.0, 300.0))
        self.assertAlmostEqual(made["gflops"], 10.0)      # 2e6 flops in 200 us
        self.assertAlmostEqual(made["gbps"], 2.0)         # 4e5 bytes in 200 us
        self.assertAlmostEqual(made["peak_gflops"], 100.0)
        # 20, 6.67 and 10 GFLOP/s against 50, 150 and 100: 40, 4.4 and 10 %, each of its own probe.
        self.assertAlmostEqual(made["percent_of_peak"], 10.0)
        self.assertEqual((made["samples"], made["max_error"]), (3, 1e-6))

    def test_spread_is_of_the_quartiles(self):
        self.assertEqual(report.spread([1.0, 2.0, 3.0]), 0.0)
        self.assertAlmostEqual(report.spread([4.0, 1.0, 3.0, 2.0, 90.0]), (4.0 - 2.0) / 3.0)


class Merging(unittest.TestCase):
    def test_replaces_rows_of_the_same_key_and_keeps_others(self):
        first = {"machine": MACHINE, "settings": {"seed": 1}, "rows": [row(), row("W2")]}
        merged = report.merge(first, MACHINE, [row(percent=70.0), row("W1", "torch")])
        self.assertEqual([(r["workload"], r["provider"]) for r in merged["rows"]],
                         [("W1", "ragged/cpu"), ("W2", "ragged/cpu"), ("W1", "torch")])
        self.assertAlmostEqual(merged["rows"][0]["percent_of_peak"], 70.0)
        self.assertEqual(merged["settings"], {"seed": 1})

    def test_refuses_another_machine(self):
        other = {**MACHINE, "model": "9"}
        with self.assertRaisesRegex(ValueError, "another machine"):
            report.merge({"machine": MACHINE, "rows": []}, other, [row()])

    def test_joins_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [str(pathlib.Path(folder) / name) for name in ("all.json", "a.json", "b.json")]
            report.save(names[1], {"machine": MACHINE, "settings": {}, "rows": [row()]})
            report.save(names[2], {"machine": MACHINE, "rows": [row("W2"), row(percent=70.0)]})
            self.assertEqual(report.main(names), 0)
            made = report.load(names[0])
        self.assertEqual([r["workload"] for r in made["rows"]], ["W1", "W2"])
        self.assertAlmostEqual(made["rows"][0]["percent_of_peak"], 70.0)
        self.assertEqual(made["settings"], {})
        self.assertEqual(report.main(["all.json"]), 2)

    def test_survives_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "r.json"
            self.assertEqual(report.load(path), {"machine": None, "rows": []})
            made = report.merge(report.load(path), MACHINE, [row(), row("W2")])
            report.save(path, made)
            self.assertEqual(report.load(path), made)
            path.write_text(json.dumps({"rows": []}), encoding="utf-8")
            with self.assertRaisesRegex(ValueError, "machine"):
                report.load(path)


class Plot(unittest.TestCase):
    def setUp(self):
        self.report = {"machine": MACHINE, "rows": [
            row("M", size=1e9), row("W1", percent=80.0), row("W1", "torch", percent=40.0),
            row("W1", "own & new", percent=20.0), row("W1", threads=2, percent=10.0)]}

    def bars(self, drawn):
        """{title: height} of the bars: the rectangles that have a title."""
        tree = xml.etree.ElementTree.fromstring(drawn)
        return {rect.find(SVG + "title").text: float(rect.get("height"))
                for rect in tree.iter(SVG + "rect") if rect.find(SVG + "title") is not None}

    def test_heights_follow_the_figures(self):
        bars = self.bars(plot.draw(self.report, 1, "fp32"))
        self.assertEqual(len(bars), 4)
        height = {title.split(":")[0]: value for title, value in bars.items() if "80." in title
                  or "40." in title or "20." in title}
        self.assertAlmostEqual(height["Ragged Attention"], 2 * height["PyTorch"], delta=0.2)
        self.assertAlmostEqual(height["PyTorch"], 2 * height["own & new"], delta=0.2)

    def test_memory_bound_workloads_stand_last_against_reads(self):
        self.assertEqual(list(plot.select(self.report, 1, "fp32")), ["W1", "M"])
        memory = self.report["rows"][0]
        self.assertAlmostEqual(plot.percent(memory, MACHINE), 10.0 * memory["gbps"])
        self.assertEqual(plot.read_gbps(MACHINE, 16), 20.0)

    def test_best_row_of_a_provider_counts(self):
        slower = copy.deepcopy(self.report)
        slower["rows"].insert(0, row("W1", "ragged/reference", percent=1.0))
        self.assertEqual(plot.draw(slower, 1, "fp32"), plot.draw(self.report, 1, "fp32"))

    def test_names_what_is_missing(self):
        with self.assertRaisesRegex(ValueError, "no row with 3 threads and fp32.*2 and fp32"):
            plot.draw(self.report, 3, "fp32")


if __name__ == "__main__":
    unittest.main()
