#!/usr/bin/env python3
"""What the pages name exists: links, paths, commands, options, presets, targets and types."""

import json
import posixpath
import re

from common import Case, main

PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md", "python/**/*.md",
         "tools/**/*.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
PATH = re.compile(r"^\.?[\w.-]+(/[\w.*{},-]+)*/?$")
NAME = re.compile(r"\bRAGGED_[A-Z0-9_]*[A-Z0-9]\b|\bRagged[A-Z]\w+")
TARGET = re.compile(r"\bragged::([a-z]\w*)\b")
# Programs of the system that a page may tell the reader to call.
SYSTEM_COMMANDS = {"cmake", "ctest", "ninja", "git", "python3", "pip", "cd", "export", "sudo",
                   "apt-get", "g++", "gcc", "cc", "nice", "cat"}


def fenced(text, languages):
    return [body for language, body in FENCE.findall(text) if language in languages]


def commands(text):
    """Command lines of a page: sh blocks whole, console blocks after their prompt."""
    lines = [line for body in fenced(text, {"sh", "bash"}) for line in body.splitlines()]
    lines += [line[2:] for body in fenced(text, {"console", "text", ""})
              for line in body.splitlines() if line.startswith("$ ")]
    return [line.split("  #")[0].strip() for line in lines if line.strip() and line[0] != "#"]


def check_path(tree, page, path, top):
    """A relative path in code style must exist, from the root or beside the page."""
    first = path.split("/")[0]
    if "/" not in path.rstrip("/") and not re.search(r"\w\.(md|py|cc|hpp|h|json|txt|cmake|cu)$", path):
        return None
    if "/" in path and first not in top and not path.startswith("./"):
        return None  # not a path of this project: "a/b"
    if re.search(r"[*{<]", path) or first in ("build", "dist"):
        return None
    if "/" not in path and any(posixpath.basename(name) == path for name in tree.files()):
        return None
    for base in ("", posixpath.dirname(page)):
        if tree.exists(posixpath.normpath(posixpath.join(base, path))):
            return None
    return f"{page}: path `{path}` does not exist"


def check_command(tree, page, line, tool, presets):
    problems = []
    words = [word for word in line.split() if not re.fullmatch(r"\w+=\S*", word)]
    if not words:
        return []
    program = words[0]
    if program == "ragged" or program.endswith("/ragged"):
        for word in words[1:2]:
            if re.fullmatch(r"[a-z][\w-]*", word) and f'"{word}"' not in tool:
                problems.append(f"{page}: `{line}`: ragged has no command {word}")
        for option in re.findall(r"(?<!\S)--([a-z][\w-]*)", line):
            if not re.search(rf'"(--)?{re.escape(option)}"', tool):
                problems.append(f"{page}: `{line}`: ragged has no option --{option}")
    elif "/" in program:
        if not program.startswith("build/") and not tree.exists(program):
            problems.append(f"{page}: `{line}`: {program} does not exist")
    elif program not in SYSTEM_COMMANDS:
        problems.append(f"{page}: `{line}`: unknown program {program}")
    for preset in re.findall(r"--preset[ =](\S+)", line):
        if preset not in presets:
            problems.append(f"{page}: `{line}`: no preset {preset}")
    return problems


def check(tree):
    code = "\n".join(text for name, text in tree.text_files()
                     if not name.endswith(".md") and not name.startswith("checks/"))
    tool = "\n".join(tree.read(name) for name in tree.files("tools/**/*.cc", "tools/**/*.hpp"))
    presets = set()
    if tree.exists("CMakePresets.json"):
        presets = {p["name"] for p in json.loads(tree.read("CMakePresets.json"))["configurePresets"]}
    top = {name.split("/")[0] for name in tree.files() if "/" in name}
    problems = []
    for page in tree.files(*PAGES):
        text = COMMENT.sub("", tree.read(page))
        for link in LINK.findall(text):
            target = link.split("#")[0]
            if target and "://" not in target and not tree.exists(
                    posixpath.normpath(posixpath.join(posixpath.dirname(page), target))):
                problems.append(f"{page}: link to {target}, which does not exist")
        prose = FENCE.sub("", text)
        for span in CODE.findall(prose):
            if PATH.match(span):
                problems.append(check_path(tree, page, span, top))
            elif span.split()[0] in ("ragged", "cmake", "ctest") and " " in span:
                problems += check_command(tree, page, span, tool, presets)
            elif re.match(r"(scripts|checks|bench|\.ci|examples)/\S+ ", span):
                problems += check_command(tree, page, span, tool, presets)
        for line in commands(text):
            problems += check_command(tree, page, line, tool, presets)
        for name in sorted(set(NAME.findall(text))):
            if not re.search(rf"\b{name}", code):
                problems.append(f"{page}: {name} occurs nowhere in the code")
        for name in sorted(set(TARGET.findall(text))):
            if not re.search(rf"\b{name}\b", code):
                problems.append(f"{page}: ragged::{name} occurs nowhere in the code")
    return [problem for problem in problems if problem]


_TREE = {
    "README.md": "# R\n[c](docs/c.md) `docs/c.md` `src/a.cc` `RAGGED_X` `ragged::core` `k / v`\n"
                 "```sh\ncmake --preset release\nscripts/test quick  # two minutes\n```\n"
                 "```console\n$ ragged plan --heads 4\noutput\n```\n",
    "docs/c.md": "see `../README.md` and `c.md` and `RaggedThing`\n",
    "src/a.cc": "RaggedThing core;  // RAGGED_X\n",
    "scripts/test": "\n",
    "tools/main.cc": 'x("plan"); y("--heads");\n',
    "CMakePresets.json": '{"configurePresets": [{"name": "release"}]}\n',
}


def _with(page, text):
    return _TREE | {page: _TREE.get(page, "") + text}


CASES = [
    Case("all there", None, _TREE),
    Case("link", "link to docs/d.md", _with("README.md", "[d](docs/d.md)\n")),
    Case("path", "path `src/b.cc`", _with("docs/c.md", "`src/b.cc`\n")),
    Case("command", "scripts/toast does not exist", _with("README.md", "```sh\nscripts/toast\n```\n")),
    Case("program", "unknown program frobnicate", _with("README.md", "```sh\nfrobnicate\n```\n")),
    Case("subcommand", "no command plam", _with("README.md", "```console\n$ ragged plam\n```\n")),
    Case("option", "no option --hats", _with("README.md", "`ragged plan --hats 4`\n")),
    Case("preset", "no preset fast", _with("README.md", "```sh\ncmake --preset fast\n```\n")),
    Case("CMake option", "RAGGED_Y occurs nowhere", _with("docs/c.md", "`RAGGED_Y`\n")),
    Case("target", "ragged::kore occurs nowhere", _with("docs/c.md", "`ragged::kore`\n")),
    Case("type", "RaggedThong occurs nowhere", _with("docs/c.md", "`RaggedThong`\n")),
]

if __name__ == "__main__":
    main(check, CASES)
