#!/usr/bin/env python3
"""Every header compiles alone: public ones under g++ and clang++, ragged.h also as C, private ones
under g++."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from common import Case, main

CXX = ["g++", "clang++-14"]
CC = ["gcc", "clang-14"]
CXX_FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
C_FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# Compiled again and again by Highway's dispatch, once for each target: no headers of their own.
NOT_ALONE = re.compile(r"-inl\.(h|hpp)$")


def write_version(tree, folder):
    """What the build generates from the project's version."""
    template = tree.root / "cmake/version.hpp.in"
    if not template.exists():
        return
    text = re.sub(r"@PROJECT_VERSION(_\w+)?@", "1", template.read_text(encoding="utf-8"))
    path = pathlib.Path(folder, "ragged/version.hpp")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


def compile_alone(tree, name, compiler, flags, generated, folder):
    """The compiler's first complaint, or None."""
    language = "c" if compiler in CC else "cpp"
    unit = pathlib.Path(folder, name.replace("/", "_") + f".{compiler}.{'c' if language == 'c' else 'cc'}")
    # Twice, so that a missing #pragma once shows; by path, as an include from anywhere would be.
    unit.write_text(f'#include "{tree.root / name}"\n' * 2, encoding="utf-8")
    done = subprocess.run([compiler, *flags, "-fsyntax-only", f"-I{tree.root / 'include'}",
                           f"-I{tree.root / 'src'}", f"-I{generated}", str(unit)],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    first = next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr)
    return f"{name}: {compiler}: {first.strip()}"


def check(tree):
    missing = [compiler for compiler in CXX + CC if shutil.which(compiler) is None]
    if missing:
        return [f"{missing[0]} not found: `scripts/setup test` installs it"]
    jobs = []
    for name in tree.files("include/**/*.hpp", "include/**/*.h", "src/**/*.hpp", "src/**/*.h"):
        if NOT_ALONE.search(name):
            continue
        public = name.startswith("include/")
        jobs += [(name, compiler, CXX_FLAGS) for compiler in (CXX if public else CXX[:1])]
        if public and name.endswith(".h"):
            jobs += [(name, compiler, C_FLAGS) for compiler in CC]
    with tempfile.TemporaryDirectory() as folder:
        generated = pathlib.Path(folder, "generated")
        write_version(tree, generated)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda job: compile_alone(tree, *job, generated, folder), jobs)
            return [problem for problem in found if problem]


CASES = [
    Case("alone", None, {"include/ragged/a.hpp": "#pragma once\n#include <string>\n"
                                                 "inline std::string f() { return {}; }\n",
                         "include/ragged/ragged.h": "#ifndef R\n#define R\nint f(void);\n#endif\n"}),
    Case("needs another", "include/ragged/a.hpp: g++",
         {"include/ragged/a.hpp": "#pragma once\ninline std::string f() { return {}; }\n"}),
    Case("included twice", "clang++-14", {"include/ragged/a.hpp": "struct A {};\n"}),
    Case("a private one", "src/b.hpp: g++", {"src/b.hpp": "#pragma once\nstd::string f();\n"}),
    Case("not C", "ragged.h: gcc", {"include/ragged/ragged.h": "#pragma once\nclass A;\n"}),
]

if __name__ == "__main__":
    main(check, CASES)
