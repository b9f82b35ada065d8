#!/usr/bin/env python3
"""A file is one idea you can hold: no source file is longer than 600 lines."""

from common import Case, main

LIMIT = 600  # lines
FOLDERS = ("src", "include", "tools", "python", "examples", "checks", "scripts", "cmake")


def check(tree):
    problems = []
    for name in tree.files(*(f"{folder}/**/*" for folder in FOLDERS)):
        if name.startswith("examples/data/"):
            continue
        lines = (tree.root / name).read_bytes().count(b"\n")
        if lines > LIMIT:
            problems.append(f"{name}: {lines} lines, at most {LIMIT}")
    return problems


CASES = [
    Case("at the limit", None, {"src/a.cc": "x\n" * LIMIT}),
    Case("one line over", "src/deep/a.cc: 601 lines", {"src/deep/a.cc": "x\n" * (LIMIT + 1)}),
    Case("outside the rooms", None, {"bench/results/a.json": "x\n" * (LIMIT + 1)}),
]

if __name__ == "__main__":
    main(check, CASES)
