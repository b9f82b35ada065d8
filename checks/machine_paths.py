#!/usr/bin/env python3
"""The tree works in any folder: no file names a path of one person's machine."""

import re

from common import Case, main

# Put together from halves, so that this file does not name them either.
FORBIDDEN = [
    re.compile(r"(?<![\w./-])/(?:wo" r"rk|ro" r"ot|ho" r"me|Us" r"ers)/[\w.-]"),
    re.compile(r"(?:\.\./)+sha" r"red/"),
    re.compile(r"\b[A-Z]:\\\\?[A-Za-z]"),
]


def check(tree):
    problems = []
    for name, text in tree.text_files():
        for number, line in enumerate(text.splitlines(), 1):
            for pattern in FORBIDDEN:
                found = pattern.search(line)
                if found:
                    problems.append(f"{name}:{number}: machine path '{found.group(0)}'")
    return problems


CASES = [
    Case("system paths are everyone's", None,
         {"a.sh": "#!/usr/bin/env bash\ncat /proc/cpuinfo build/work/a docs/root/b\n"}),
    Case("a home folder", "a.cc:2: machine path", {"a.cc": "\n#include \"/ho" "me/ann/x.h\"\n"}),
    Case("a checkout", "docs/x.md:1", {"docs/x.md": "see /wo" "rk/ragged\n"}),
    Case("a folder outside the tree", "x.py:1", {"x.py": "open('../sha" "red/x')\n"}),
]

if __name__ == "__main__":
    main(check, CASES)
