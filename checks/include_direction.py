#!/usr/bin/env python3
"""Dependencies point one way: declare -> layout -> plan -> run -> wrappers -> manager.

A header includes only what stands to its left; a .cc may also include the backends' contract. A
backend knows the contract alone, and the device room where it runs on one. CUDA stays in its
backends' folders and the device room, the binding in python/.
"""

import posixpath
import re

from common import Case, main

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Rooms of include/ragged and src, left to right, each with the names of its files. A name not listed
# belongs to the room whose name begins it ("plan_text.cc" to plan), the longest such name first.
ROOMS = [
    ("error", ["error", "version", "visible", "memory_errors", "huge_pages"]),
    ("declare", ["declare", "numbers"]),
    ("layout", ["layout"]),
    ("helpers", ["helpers"]),
    ("plan", ["plan", "cut", "problem", "work_list", "device_facts"]),
    ("run", ["run", "executor", "thread_pool", "tbb_executor"]),
    ("device", []),  # src/device
    ("contract", ["contract"]),
    ("registry", ["registry"]),
    ("wrappers", ["wrappers", "wrapper", "flashinfer_wrappers", "plan_runner", "scratch"]),
    ("manager", ["manager"]),
    ("ragged", ["ragged"]),
    ("c_api", ["c_api"]),
]
CONTRACT = "src/backends/contract.hpp"
# Pure functions that backends share with the planner.
SHARED_WITH_BACKENDS = ("src/cut.hpp", "src/numbers.hpp", "src/visible.hpp")
DEVICE_ROOM = "src/device/"
DEVICE_BACKENDS = tuple(f"src/backends/{name}/" for name in ("sm80", "sm90", "flashinfer", "cudnn"))
CUDA_FOLDERS = (*DEVICE_BACKENDS, DEVICE_ROOM)
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nccl|cute/|cutlass/|flashinfer/|nv/|thrust/|cub/)")
BINDING_HEADER = re.compile(r"^(Python\.h|nanobind/|pybind11/|torch/)")
GENERATED = ("include/ragged/version.hpp",)
# Public headers that stand for another library, which whoever includes them brings.
ADAPTERS = {"include/ragged/tbb_executor.hpp": "oneapi/tbb/"}


def room_of(name):
    """Index into ROOMS of a file of include/ragged or src, or None where the name fits none."""
    if name == CONTRACT:
        return [title for title, _ in ROOMS].index("contract")
    if name.startswith(DEVICE_ROOM):
        return [title for title, _ in ROOMS].index("device")
    stem = posixpath.basename(name).rsplit(".", 1)[0]
    if name.endswith("/ragged.h") or name.startswith("include/ragged/c/"):  # the C interface
        stem = "c_api"
    best = max(((word, index) for index, (_, words) in enumerate(ROOMS) for word in words
                if stem == word or stem.startswith(word + "_")),
               key=lambda pair: len(pair[0]), default=None)
    return best and best[1]


def resolve(tree, name, quote, target):
    """The project's file that an include names, or None for a foreign header."""
    beside = [posixpath.normpath(posixpath.join(posixpath.dirname(name), target))]
    for path in (beside if quote == '"' else []) + [f"include/{target}", f"src/{target}"]:
        if path in GENERATED or path in tree.files():
            return path
    return None


def closure(tree, name):
    """Every file of the project that `name` includes, directly or not."""
    seen, todo = set(), [name]
    while todo:
        current = todo.pop()
        if current in GENERATED or current not in tree.files():
            continue
        for quote, target in INCLUDE.findall(tree.read(current)):
            path = resolve(tree, current, quote, target)
            if path and path not in seen:
                seen.add(path)
                todo.append(path)
    return seen


def check_include(tree, name, quote, target, backend_may):
    """The rule that one include breaks, or None."""
    path = resolve(tree, name, quote, target)
    if CUDA_HEADER.match(target) and not name.startswith(CUDA_FOLDERS + ("bench/", "tests/")):
        return "CUDA outside its backends' folders"
    if BINDING_HEADER.match(target) and not name.startswith("python/"):
        return "the Python binding outside python/"
    if path and path.startswith("src/backends/") and path != CONTRACT:
        home = "/".join(path.split("/")[:3]) + "/"
        if not name.startswith((home, "src/registry", "tests/", "bench/")):
            return f"the inside of {home} outside of it"
    if path in ADAPTERS and name.startswith(("include/", "src/", "tools/")):
        return "an adapter is for whoever brings its library"
    if name.startswith("include/"):
        if quote == '"' or (path and not path.startswith("include/")):
            return "a public header includes public headers only, as <ragged/...>"
        adapted = name in ADAPTERS and target.startswith(ADAPTERS[name])
        if path is None and not adapted and not re.fullmatch(r"[a-z_0-9]+(\.h)?", target):
            return "a public header needs the standard library alone"
    if name.startswith("examples/") and path and path.startswith("src/"):
        return "an example uses the public headers alone"
    if name.startswith("src/backends/") and name != CONTRACT:
        home = "/".join(name.split("/")[:3]) + "/"
        if path and path.startswith(DEVICE_ROOM) and name.startswith(DEVICE_BACKENDS):
            return None
        if path and not path.startswith(home) and path not in backend_may:
            return "a backend includes the contract alone"
        return None
    if path and name.startswith(("include/", "src/")):
        return check_rooms(name, path)
    return None


def check_rooms(name, path):
    own, other = room_of(name), room_of(path)
    if own is None or other is None:
        return None  # reported once for each file
    if other <= own:
        return None
    if path == CONTRACT and name.endswith(".cc"):
        return None
    return f"{ROOMS[own][0]} includes {ROOMS[other][0]}, which stands to its right"


def check(tree):
    problems = []
    backend_may = {CONTRACT, *SHARED_WITH_BACKENDS, *closure(tree, CONTRACT)}
    sources = tree.files(*(f"**/*.{s}" for s in ("hpp", "h", "cc", "cuh", "cu", "c")))
    for name in sources:
        if name.endswith((".cu", ".cuh")) and not name.startswith(
                CUDA_FOLDERS + ("bench/", "tests/")):
            problems.append(f"{name}: CUDA outside its backends' folders")
        in_room = name.startswith(("include/", "src/"))
        if in_room and (not name.startswith("src/backends/")) and room_of(name) is None:
            problems.append(f"{name}: belongs to no room; name it in checks/include_direction.py")
        for quote, target in INCLUDE.findall(tree.read(name)):
            broken = check_include(tree, name, quote, target, backend_may)
            if broken:
                problems.append(f"{name}: includes {target}: {broken}")
    return problems


_GOOD = {
    "include/ragged/declare.hpp": "#include <string>\n",
    "include/ragged/layout.hpp": "#include <ragged/declare.hpp>\n",
    "include/ragged/plan.hpp": "#include <ragged/layout.hpp>\n",
    "include/ragged/run.hpp": "#include <ragged/plan.hpp>\n",
    "include/ragged/manager.hpp": "#include <ragged/run.hpp>\n",
    CONTRACT: "#include <ragged/run.hpp>\n",
    "src/plan.cc": '#include "backends/contract.hpp"\n',
    "src/registry.cc": '#include "backends/cpu/cpu.hpp"\n',
    "src/backends/cpu/cpu.hpp": '#include "backends/contract.hpp"\n#include <ragged/plan.hpp>\n',
    "src/device/unit.hpp": "#include <ragged/plan.hpp>\n",
    "src/backends/sm90/a.cu": '#include <cuda_runtime.h>\n#include "device/unit.hpp"\n',
    "examples/first.cc": "#include <ragged/run.hpp>\n",
}
CASES = [
    Case("the flow", None, _GOOD),
    Case("to the right", "layout includes plan",
         _GOOD | {"include/ragged/layout.hpp": "#include <ragged/plan.hpp>\n"}),
    Case("a .cc too", "plan includes manager",
         _GOOD | {"src/plan_text.cc": "#include <ragged/manager.hpp>\n"}),
    Case("a header and the contract", "plan includes contract",
         _GOOD | {"src/plan_x.hpp": '#include "backends/contract.hpp"\n'}),
    Case("CUDA in the core", "CUDA outside",
         _GOOD | {"src/run.cc": "#include <cuda_runtime.h>\n"}),
    Case("a kernel file in the core", "src/x.cu: CUDA outside", _GOOD | {"src/x.cu": "\n"}),
    Case("a backend beyond the contract", "the contract alone",
         _GOOD | {"src/backends/cpu/a.cc": "#include <ragged/manager.hpp>\n"}),
    Case("one backend and another", "the inside of src/backends/cpu/",
         _GOOD | {"src/backends/sm90/b.cu": '#include "backends/cpu/cpu.hpp"\n'}),
    Case("the device room and the contract", "device includes contract",
         _GOOD | {"src/device/unit.hpp": '#include "backends/contract.hpp"\n'}),
    Case("a CPU's backend and the device room", "the contract alone",
         _GOOD | {"src/backends/cpu/a.cc": '#include "device/unit.hpp"\n'}),
    Case("a public header and a private one", "public headers only",
         _GOOD | {"src/cut.hpp": "\n", "include/ragged/run.hpp": '#include "cut.hpp"\n'}),
    Case("a public header and a third party", "standard library alone",
         _GOOD | {"include/ragged/run.hpp": "#include <hwy/highway.h>\n"}),
    Case("an adapter and its library", None,
         _GOOD | {"include/ragged/tbb_executor.hpp": "#include <oneapi/tbb/task_arena.h>\n"}),
    Case("an adapter and another library", "standard library alone",
         _GOOD | {"include/ragged/tbb_executor.hpp": "#include <hwy/highway.h>\n"}),
    Case("an adapter from the library", "for whoever brings its library",
         _GOOD | {"include/ragged/tbb_executor.hpp": "#include <oneapi/tbb/task_arena.h>\n",
                  "src/run.cc": "#include <ragged/tbb_executor.hpp>\n"}),
    Case("an example and a private header", "public headers alone",
         _GOOD | {"examples/first.cc": '#include "backends/contract.hpp"\n'}),
    Case("binding in the library", "outside python/",
         _GOOD | {"src/run.cc": "#include <nanobind/nanobind.h>\n"}),
    Case("a name of no room", "belongs to no room", _GOOD | {"src/stuff.cc": "\n"}),
]

if __name__ == "__main__":
    main(check, CASES)
