#!/usr/bin/env python3
"""C and C++ are as clang-format 14 writes them; every text file ends its lines the same way."""

import shutil
import subprocess
import sys

from common import ROOT, Case, main

CLANG_FORMAT = shutil.which("clang-format-14")
PATTERNS = [f"**/*.{suffix}" for suffix in ("cc", "hpp", "h", "c", "cu", "cuh")]
NOT_OURS = ("bench/results/", "examples/data/")  # written by programs


def check(tree):
    if CLANG_FORMAT is None:
        return ["clang-format-14 not found: `scripts/setup test` installs it"]
    problems = []
    sources = tree.files(*PATTERNS)
    if sources:
        done = subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", "-style=file:"
                               + str(ROOT / ".clang-format"), *sources],
                              cwd=tree.root, capture_output=True, text=True, check=False)
        problems += [line for line in done.stderr.splitlines() if ": error:" in line]
        if done.returncode != 0 and not problems:
            problems.append(done.stderr.strip())
    for name, text in tree.text_files():
        if name.startswith(NOT_OURS) or not text:
            continue
        if "\r" in text:
            problems.append(f"{name}: carriage return")
        if not text.endswith("\n") or text.endswith("\n\n"):
            problems.append(f"{name}: must end with exactly one newline")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                problems.append(f"{name}:{number}: space at the end of the line")
            if "\t" in line and not name.endswith(("Makefile", ".tsv")):
                problems.append(f"{name}:{number}: tab")
    return problems


CASES = [
    Case("formatted", None, {"a.cc": "int f(int x) { return x; }\n", "b.md": "# B\n"}),
    Case("indented wrongly", "src/a.hpp:2", {"src/a.hpp": "int f() {\n     return 1;\n}\n"}),
    Case("no last newline", "b.md: must end", {"b.md": "# B"}),
    Case("space at the end", "b.md:1: space", {"b.md": "# B \n"}),
    Case("tab", "b.py:1: tab", {"b.py": "if x:\ty()\n"}),
]

if __name__ == "__main__":
    if CLANG_FORMAT is None:
        sys.exit("clang-format-14 not found: `scripts/setup test` installs it")
    main(check, CASES)
