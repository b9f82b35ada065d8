#!/usr/bin/env python3
"""Pages hold copies of files between markers; each copy is the file as it is now.

    <!-- begin FILE -->        a fenced block (or, for a .md file, the text itself) follows
    <!-- end -->

`checks/generated_blocks.py --write` brings the copies up to date.
"""

import re
import sys

from common import ROOT, Case, Tree, main

BLOCK = re.compile(r"(<!-- begin (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
LANGUAGES = {"cc": "cpp", "hpp": "cpp", "c": "c", "py": "python", "sh": "sh", "console": "console",
             "json": "json", "txt": "text"}
HEADER = re.compile(r"\A(//[^\n]*\n)+\n")  # a leading comment is for the file's own readers


def block_of(tree, name):
    text = tree.read(name)
    if name.endswith(".md"):
        return text
    language = LANGUAGES[name.rsplit(".", 1)[1]]
    return f"```{language}\n{HEADER.sub('', text)}```\n"


def check(tree):
    problems = []
    for page in tree.files("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md"):
        text = tree.read(page)
        if text.count("<!-- begin ") != len(BLOCK.findall(text)):
            problems.append(f"{page}: a begin without its end")
        for _, name, body, _ in BLOCK.findall(text):
            if not tree.exists(name):
                problems.append(f"{page}: begin {name}: no such file")
            elif body != block_of(tree, name):
                problems.append(f"{page}: copy of {name} differs; "
                                "`checks/generated_blocks.py --write` updates it")
    return problems


def write(tree):
    for page in tree.files("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md"):
        text = tree.read(page)
        new = BLOCK.sub(lambda m: m.group(1) + block_of(tree, m.group(2)) + m.group(4), text)
        if new != text:
            (tree.root / page).write_text(new, encoding="utf-8")
            print(f"updated {page}")


_SOURCE = {"examples/a.cc": "// Why.\n\nint main() {}\n", "t.md": "| a |\n"}
CASES = [
    Case("copies", None, _SOURCE | {
        "README.md": "# R\n<!-- begin examples/a.cc -->\n```cpp\nint main() {}\n```\n<!-- end -->\n"
                     "<!-- begin t.md -->\n| a |\n<!-- end -->\n"}),
    Case("stale", "copy of examples/a.cc differs", _SOURCE | {
        "README.md": "<!-- begin examples/a.cc -->\n```cpp\nint main(){}\n```\n<!-- end -->\n"}),
    Case("file gone", "no such file", {"README.md": "<!-- begin a.cc -->\n<!-- end -->\n"}),
    Case("no end", "a begin without its end", _SOURCE | {"README.md": "<!-- begin t.md -->\n"}),
]

if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write(Tree(ROOT))
    else:
        main(check, CASES)
