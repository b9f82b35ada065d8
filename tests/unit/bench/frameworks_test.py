"""Every installed framework against double precision, on small workloads of every kind.

Ends with 77 (skipped) without numpy; a framework that is not installed is skipped by name.
"""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

try:
    import numpy as np
except ImportError:
    print("numpy is not installed")
    sys.exit(77)

import frameworks  # noqa: E402
import peers_cpu  # noqa: E402
import probe  # noqa: E402
import report  # noqa: E402
import workload as workloads  # noqa: E402


def entry(name, kind, q_segments, kv_segments=None, heads=(2, 2), dim=32, causal=False, block=None):
    return {"name": name, "kind": kind, "num_qo_heads": heads[0], "num_kv_heads": heads[1],
            "head_dim": dim, "dtype": "fp32", "causal": causal, "block_size": block,
            "q_segments": q_segments, "kv_segments": kv_segments}


ENTRIES = [
    entry("dense", "self", [[3, 40]]), entry("ragged", "self", [[1, 3], [2, 5], [1, 70]]),
    entry("causal", "self", [[2, 50]], heads=(4, 2), causal=True),
    entry("blocks", "block_causal", [[2, 50]], block=20),
    entry("cross", "cross", [[3, 1]], [[1, 50], [1, 0], [1, 7]]),
    entry("prefixed", "prefixed", [[2, 10]], [[2, 60]], heads=(4, 1)),
]


def load(entries):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "w.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        return workloads.load(path)


CASES = load(ENTRIES)


class Workloads(unittest.TestCase):
    def test_lengths_and_figures(self):
        case = CASES["prefixed"]
        self.assertEqual((case.q_lengths, case.kv_lengths), ([10, 10], [70, 70]))
        self.assertEqual(case.flops, 4 * 2 * 10 * 70 * 4 * 32)
        self.assertEqual(case.size(4), 4 * 32 * (2 * 20 * 4 + 2 * 140 * 1))
        self.assertEqual(CASES["causal"].flops, 4 * 2 * (50 * 51 / 2) * 4 * 32)
        self.assertEqual(CASES["blocks"].flops, 4 * 2 * (20 * 20 + 20 * 40 + 10 * 50) * 2 * 32)

    def test_the_whole_suite_loads(self):
        suite = workloads.load(ROOT / "bench/workloads/cpu.json")
        self.assertEqual(list(suite), [f"W{i}" for i in range(1, 10)])

    def test_a_wrong_result_shows(self):
        case = CASES["ragged"]
        q, k, v = workloads.inputs(case)
        self.assertGreater(workloads.max_error(case, q, k, v, np.zeros_like(q)), 0.01)
        self.assertEqual(workloads.max_error(case, q, k, v, np.full_like(q, np.nan)), np.inf)


class Frameworks(unittest.TestCase):
    def check(self, name):
        if frameworks.version(name) is None:
            self.skipTest(f"{name} is not installed")
        right = 0
        for case in CASES.values():
            first = workloads.inputs(case)
            sets = [first, [x.copy() for x in first]]
            try:
                variants = frameworks.FRAMEWORKS[name](case, sets, 1, "fp32")
            except frameworks.Declined:
                continue
            for variant, call, checked in variants:
                call(1)
                error = workloads.max_error(case, *first, checked())
                self.assertLess(error, 1e-5, f"{case.name}, {variant}")
                right += 1
        self.assertGreaterEqual(right, 4)

    def test_onnxruntime(self):
        self.check("onnxruntime")

    def test_openvino(self):
        self.check("openvino")

    def test_torch(self):
        self.check("torch")


class Command(unittest.TestCase):
    def test_adds_rows_to_a_report(self):
        installed = [name for name in frameworks.FRAMEWORKS if frameworks.version(name)]
        try:
            probe.find()
        except FileNotFoundError as error:
            self.skipTest(str(error))
        if not installed:
            self.skipTest("no framework is installed")
        with tempfile.TemporaryDirectory() as folder:
            listed, path = pathlib.Path(folder) / "w.json", pathlib.Path(folder) / "r.json"
            listed.write_text(json.dumps(ENTRIES), encoding="utf-8")
            common = ["--json", str(path), "--workloads", str(listed), "--seconds", "0",
                      "--rotate-bytes", "1", "--threads", "1", "--providers", installed[0]]
            self.assertEqual(peers_cpu.main([*common, "--names", "dense,ragged"]), 0)
            self.assertEqual(peers_cpu.main([*common, "--names", "ragged"]), 0)  # replaces its row
            made = report.load(path)
        self.assertEqual([row["workload"] for row in made["rows"]], ["dense", "ragged"])
        self.assertIn("flags", made["machine"])
        for row in made["rows"]:
            self.assertEqual((row["provider"], row["samples"]), (installed[0], 3))
            self.assertGreater(row["percent_of_peak"], 0)
            self.assertLessEqual(row["max_error"], row["tolerance"])

    def test_refuses_what_it_does_not_know(self):
        for option, value in (("--names", "W0"), ("--providers", "numpy"), ("--dtypes", "fp8")):
            self.assertEqual(peers_cpu.main(["--json", "unused.json", option, value]), 2)


if __name__ == "__main__":
    unittest.main()
