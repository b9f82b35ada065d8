#!/usr/bin/env python3
"""What tools/gpu-run does on a machine with a GPU: tests, sanitizers, benchmark, peers, table.

    python3 tools/gpu_run.py --only tests,bench --out build/gpu-results

Exit status 1 where a test failed, a sanitizer found something or a row of ours was wrong.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
SANITIZER_PARTS = 3
# Tests whose subject is time or a busy GPU: alone, after the others.
ALONE = "*/staging.*:*/device_offsets.planning*"
RANDOM = "*/random.*"
RANDOM_CASES, RANDOM_PARTS = 320, 8
# What a sanitizer runs in seconds: every kind, mask and way of holding tensors, small.
REDUCED = ("*/cases.edge02*:*/cases.edge03*:*/cases.edge04*:*/cases.edge08*:*/cases.edge09*:"
           "*/cases.edge10*:*/cases.edge18*:*/prefixed.*:*/capture.replays_cross:"
           "*/capture.replays_causal:*/device_offsets.same_bits_prefixed*:"
           "*/device_offsets.edge26*")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="tests,bench,peers",
                        help="of tests, sanitize, bench, peers (default: %(default)s)")
    parser.add_argument("--bin", default=ROOT / ".gpu/run", type=pathlib.Path, metavar="FOLDER",
                        help="the programs (default: .gpu/run)")
    parser.add_argument("--wheels", default=ROOT / ".gpu/wheels", type=pathlib.Path, metavar="FOLDER",
                        help="peers' wheels, unpacked for the run (default: .gpu/wheels)")
    parser.add_argument("--out", default=os.environ.get("OUT", ROOT / "build/gpu-results"),
                        type=pathlib.Path, metavar="FOLDER", help="results (default: $OUT)")
    parser.add_argument("--filter", default="*", help="of tests, as --gtest_filter")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1),
                        help="test programs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=170, metavar="S",
                        help="of each test program (default: %(default)s)")
    parser.add_argument("--bench", default="--suite models", metavar="OPTIONS",
                        help="of `ragged bench --device cuda` (default: %(default)s)")
    parser.add_argument("--peers", default="", metavar="OPTIONS", help="of bench/peers_gpu.py")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    unknown = set(options.only) - {"tests", "sanitize", "bench", "peers"}
    if unknown:
        parser.error(f"--only has no {', '.join(sorted(unknown))}")
    return options


class Tests:
    """Runs parts of one GoogleTest program and counts what they did."""

    def __init__(self, options):
        self.program = options.bin / "gpu_backend_test"
        self.logs, self.timeout, self.out = options.scratch, options.timeout, options.out
        self.passed, self.failures, self.skipped, self.slow = 0, [], [], []

    def run(self, name, test_filter, command=(), **environment):
        """(name, seconds, status or None where it ran out of time, log, results)"""
        report, log = self.logs / f"{name}.json", self.logs / f"{name}.txt"
        report.unlink(missing_ok=True)
        words = [*command, self.program, f"--gtest_filter={test_filter}",
                 f"--gtest_output=json:{report}"]
        start, status = time.time(), None
        with log.open("w", encoding="utf-8") as stream:
            # A group of its own: a sanitizer that is stopped leaves no program on the GPU.
            with subprocess.Popen(words, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT,
                                  env={**os.environ, **environment},
                                  start_new_session=True) as process:
                try:
                    status = process.wait(self.timeout)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
        results = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return name, time.time() - start, status, log, results

    def count(self, result):
        name, seconds, status, log, results = result
        text = log.read_text(encoding="utf-8", errors="replace")
        # Without a report: a crash or a hang, in the test that began last.
        if results is None:
            begun = [line for line in text.splitlines() if line.startswith("[ RUN")]
            last = begun[-1].split("] ")[1] if begun else "before any test"
            what = "no end after" if status is None else f"status {status} after"
            self.failures.append((f"{name}: {what} {seconds:.0f} s, at {last}", text[-600:]))
            self.passed += text.count("[       OK ]")
            return
        for suite in results["testsuites"]:
            for test in suite["testsuite"]:
                label = f"{suite['name']}.{test['name']}"
                self.slow.append((float(test.get("time", "0s").rstrip("s")), label))
                if test.get("failures"):
                    self.failures.append((label, test["failures"][0]["failure"][:500]))
                elif test["result"] == "SKIPPED":
                    said = text.partition(f"[ RUN      ] {label}\n")[2].partition(": Skipped\n")[2]
                    self.skipped.append((label, said.partition("\n")[0]))
                elif test["status"] == "RUN":
                    self.passed += 1
        if status not in (0, 1):
            self.failures.append((f"{name}: status {status}", text[-600:]))

    def finish(self, what, seconds):
        for label, text in self.failures[:25]:
            print(f"FAILED {label}\n    " + text.replace("\n", "\n    "))
        if len(self.failures) > 25:
            print(f"... and {len(self.failures) - 25} more")
        for label, reason in self.skipped[:12]:
            print(f"skipped {label}: {reason}")
        if len(self.skipped) > 12:
            print(f"... and {len(self.skipped) - 12} more skipped")
        for spent, label in sorted(self.slow, reverse=True)[:5]:
            print(f"slow: {spent:.1f} s {label}")
        with (self.out / f"{what}.txt").open("w", encoding="utf-8") as log:
            log.writelines(f"FAILED {label}\n{text}\n" for label, text in self.failures)
            log.writelines(f"skipped {label}: {reason}\n" for label, reason in self.skipped)
        print(f"{what}: {self.passed} passed, {len(self.failures)} failed, {len(self.skipped)} skipped "
              f"in {seconds:.0f} s", flush=True)
        return not self.failures and self.passed > 0


def run_tests(options):
    """All tests in parallel parts, then those that need the GPU for themselves."""
    start, tests = time.time(), Tests(options)
    positive, _, negative = options.filter.partition("-")
    parts, each = [], RANDOM_CASES // RANDOM_PARTS
    rest = f"{positive or '*'}-{RANDOM}:{ALONE}" + (f":{negative}" if negative else "")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for i in range(options.jobs):
            parts.append(pool.submit(tests.run, f"part{i}", rest, GTEST_TOTAL_SHARDS=str(options.jobs),
                                     GTEST_SHARD_INDEX=str(i)))
        if options.filter == "*":
            for i in range(RANDOM_PARTS):
                parts.append(pool.submit(tests.run, f"random{i}", RANDOM,
                                         RAGGED_TEST_SEED=str(1 + i * each),
                                         RAGGED_TEST_CASES=str(each)))
        for part in parts:
            tests.count(part.result())
    if options.filter == "*":
        tests.count(tests.run("alone", ALONE))
    return tests.finish("tests", time.time() - start)


def run_sanitizers(options):
    """compute-sanitizer over the reduced set: its tools side by side, each in parts."""
    start, tests = time.time(), Tests(options)
    found = []
    only = REDUCED if options.filter == "*" else options.filter

    def sanitize(job):
        tool, part = job
        # Plain allocations of the exact size: what the tools watch.
        return tests.run(f"sanitize_{tool}{part}", only,
                         ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9"),
                         RAGGED_TEST_CUDA_MALLOC="1", GTEST_TOTAL_SHARDS=str(SANITIZER_PARTS),
                         GTEST_SHARD_INDEX=str(part))
    jobs = [(tool, part) for tool in SANITIZERS for part in range(SANITIZER_PARTS)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (tool, part), result in zip(jobs, pool.map(sanitize, jobs)):
            log = result[3].read_text(encoding="utf-8", errors="replace").splitlines()
            summary = [line for line in log if "SUMMARY" in line]
            print(f"{tool} {part}: {summary[-1].lstrip('= ') if summary else 'no summary'} "
                  f"({result[1]:.0f} s)")
            if result[2] == 9 or (result[2] is None and not summary):
                found.append(tool)
                print("\n".join([line for line in log if line.startswith("=====")][2:24]))
            tests.count(result)
    return tests.finish("sanitizers", time.time() - start) and not found


def run_bench(options, report):
    words = [options.bin / "ragged", "bench", "--device", "cuda", "--json", report,
             *options.bench.split()]
    return subprocess.run(words, cwd=ROOT, check=False).returncode == 0


def run_peers(options, report):
    """Peers cost their own rows only: true whatever they do."""
    site = options.scratch / "site"
    if options.wheels.is_dir():
        for wheel in sorted(options.wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
    path = os.pathsep.join(filter(None, [str(site), str(site / "nvidia_cutlass_dsl/dsl_packages"),
                                         os.environ.get("PYTHONPATH")]))
    subprocess.run([sys.executable, ROOT / "bench/peers_gpu.py", "--json", report,
                    *options.peers.split()], cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
                   check=False)
    return True


def main(arguments=None):
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = pathlib.Path(scratch)
        return act(options)


def act(options):
    report, good = options.out / "gpu.json", True
    for name, step in (("tests", run_tests), ("sanitize", run_sanitizers),
                       ("bench", lambda o: run_bench(o, report)),
                       ("peers", lambda o: run_peers(o, report))):
        if name in options.only:
            start = time.time()
            print(f"== {name}", flush=True)
            good = step(options) and good
            print(f"== {name}: {time.time() - start:.0f} s", flush=True)
    if report.exists():
        sys.path.insert(0, str(ROOT / "bench"))
        import gpu_rules
        import report as reports
        print(gpu_rules.table(reports.load(report)))
        subprocess.run([sys.executable, ROOT / "bench/plot.py", report], check=False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
