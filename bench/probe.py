"""The probes of bench/fma_probe.hpp, through ctypes."""

import ctypes
import json
import pathlib

LIBRARY = "libragged_bench_probe_c.so"


def find():
    """The library of build/release, else the newest under build/: a sanitizer's may not load. Raises
    FileNotFoundError saying how to build it."""
    root = pathlib.Path(__file__).resolve().parent.parent
    built = sorted(root.glob(f"build/*/bench/{LIBRARY}"),
                   key=lambda path: (path.parent.parent.name == "release", path.stat().st_mtime))
    if not built:
        raise FileNotFoundError(f"{LIBRARY} is not built; build the target ragged_bench_probe_c")
    return built[-1]


class Probe:
    def __init__(self, path=None):
        self._library = ctypes.CDLL(str(path or find()))
        self._library.ragged_bench_fma_peak_gflops.restype = ctypes.c_double
        self._library.ragged_bench_fma_peak_gflops.argtypes = [
            ctypes.c_char_p, ctypes.c_int, ctypes.c_double]
        for name in ("best_fp32_simd", "machine_json"):
            getattr(self._library, f"ragged_bench_{name}").restype = ctypes.c_char_p

    @property
    def simd(self):
        """The widest fp32 target: what percentages refer to."""
        return self._library.ragged_bench_best_fp32_simd().decode()

    def peak_gflops(self, threads, simd=None, seconds=0.002):
        """FMA peak of this moment; 0 where the target is not supported."""
        return self._library.ragged_bench_fma_peak_gflops(
            (simd or self.simd).encode(), threads, seconds)

    def machine(self):
        """The machine as a report holds it."""
        return json.loads(self._library.ragged_bench_machine_json().decode())
