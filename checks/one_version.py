#!/usr/bin/env python3
"""The version stands in one place, project(... VERSION ...) of CMakeLists.txt; all else reads it."""

import re

from common import Case, main

PROJECT = re.compile(r"project\([^)]*\bVERSION\s+(\d+\.\d+\.\d+)")
HEADING = re.compile(r"^## \[?(\d+\.\d+\.\d+)", re.MULTILINE)
# Recorded by runs of a program or kept as history; nothing reads the version from them.
RECORDS = ("bench/results/", "examples/data/", "CHANGELOG.md", "CMakeLists.txt")


def check(tree):
    found = PROJECT.search(tree.read("CMakeLists.txt"))
    if not found:
        return ["CMakeLists.txt: no project(... VERSION a.b.c ...)"]
    version = found.group(1)
    problems = []
    # "NAME==a.b.c" pins another package, whose version may happen to be the same.
    literal = re.compile(rf"(?<![\w.])(?<!==){re.escape(version)}(?![\w]|\.\d)")
    for name, text in tree.text_files():
        if name.startswith(RECORDS):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if literal.search(line):
                problems.append(f"{name}:{number}: repeats the version {version}")
    released = HEADING.findall(tree.read("CHANGELOG.md")) if tree.exists("CHANGELOG.md") else []
    if released and released[0] != version:
        problems.append(f"CHANGELOG.md: newest release {released[0]}, CMakeLists.txt has {version}")
    return problems


_PROJECT = "project(x VERSION 3.1.4 LANGUAGES CXX)\n"
CASES = [
    Case("one place", None, {"CMakeLists.txt": _PROJECT, "a.py": "v = '13.1.4'; w = '3.1.4.1'\n",
                             "needs.txt": "other==3.1.4\n",
                             "CHANGELOG.md": "# C\n\n## Unreleased\n\n## 3.1.4\n"}),
    Case("no version", "no project(", {"CMakeLists.txt": "project(x)\n"}),
    Case("repeated", "a.py:1: repeats the version 3.1.4",
         {"CMakeLists.txt": _PROJECT, "a.py": "version = '3.1.4'\n"}),
    Case("old changelog", "newest release 3.1.3",
         {"CMakeLists.txt": _PROJECT, "CHANGELOG.md": "# C\n\n## 3.1.3\n"}),
]

if __name__ == "__main__":
    main(check, CASES)
