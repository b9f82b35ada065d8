"""What every check shares: the files of the tree, and the two ways to run a check.

A check is one function, tree -> list of problems, and a list of cases: small trees with and without
the fault. `checks/NAME.py` checks the project; `checks/NAME.py --self-test` runs the cases, so that a
check which can no longer fail is itself a failure.
"""

import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Tree:
    """The project's own files below a root: tracked ones, and new ones that git does not ignore."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def files(self, *patterns):
        """Sorted paths relative to the root that match any of the patterns (`**` crosses folders)."""
        if not hasattr(self, "_all"):
            if (self.root / ".git").exists():
                listed = subprocess.run(
                    ["git", "-C", str(self.root), "ls-files", "-z", "-co", "--exclude-standard"],
                    check=True, capture_output=True, text=True).stdout.split("\0")
                names = {name for name in listed if name and (self.root / name).is_file()}
            else:
                names = {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()}
            self._all = sorted(names)
        if not patterns:
            return list(self._all)
        return [name for name in self._all if any(_matches(name, p) for p in patterns)]

    def read(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def text_files(self):
        """(name, text) of every file that is UTF-8 without NUL bytes."""
        for name in self.files():
            data = (self.root / name).read_bytes()
            if b"\0" in data:
                continue
            try:
                yield name, data.decode("utf-8")
            except UnicodeDecodeError:
                continue

    def exists(self, name):
        return (self.root / name).exists()


def _matches(name, pattern):
    """fnmatch, with `**/` for any number of folders and `*` within one."""
    parts, wanted = name.split("/"), pattern.split("/")

    def match(i, j):
        if j == len(wanted):
            return i == len(parts)
        if wanted[j] == "**":
            return any(match(k, j + 1) for k in range(i, len(parts)))
        return (i < len(parts) and pathlib.PurePath(parts[i]).match(wanted[j])
                and match(i + 1, j + 1))

    return match(0, 0)


@dataclass
class Case:
    """A small tree. `expect`: text that one of the problems holds; None: no problem at all."""
    name: str
    expect: str | None
    files: dict = field(default_factory=dict)


def self_test(check, cases):
    """Problems of the check itself: a fault not found, or a clean tree refused."""
    problems = []
    if not any(case.expect for case in cases) or all(case.expect for case in cases):
        problems.append("self-test needs a clean tree and a faulty one")
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in case.files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            found = check(Tree(folder))
        if case.expect is None and found:
            problems.append(f"self-test '{case.name}': clean tree, but found: {found[0]}")
        if case.expect is not None and not any(case.expect in problem for problem in found):
            problems.append(f"self-test '{case.name}': expected '{case.expect}', found: {found}")
    return problems


def main(check, cases):
    problems = self_test(check, cases) if "--self-test" in sys.argv[1:] else check(Tree(ROOT))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)
