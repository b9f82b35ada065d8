"""The package's types: checked whole, and the stub of the compiled half against that half."""

import ast
import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest
import ragged_attention
from ragged_attention import _ext

PACKAGE = pathlib.Path(ragged_attention.__file__).parent


# torch and transformers are not looked into: that takes minutes. What comes from them is Any here.
SETTINGS = """
[mypy]
strict = True
warn_return_any = False
disallow_untyped_decorators = False
[mypy-torch.*,transformers.*]
follow_imports = skip
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_types_hold(tmp_path):
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    done = subprocess.run([sys.executable, "-m", "mypy", "-p", "ragged_attention"],
                          capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def stub_functions():
    """ "Wrapper.plan" -> its parameters' names; a property has none."""
    found = {}
    for node in ast.parse((PACKAGE / "_ext.pyi").read_text()).body:
        owner, members = ("", [node])
        if isinstance(node, ast.ClassDef):
            owner, members = f"{node.name}.", node.body
        for member in members:
            if isinstance(member, ast.FunctionDef):
                is_property = any(getattr(d, "id", "") == "property" for d in member.decorator_list)
                names = [argument.arg for argument in member.args.args if argument.arg != "self"]
                found[owner + member.name] = None if is_property else names
    return found


def compiled_functions():
    """The same, of the module: nanobind's functions carry their signature as text."""
    found = {}
    for name, value in vars(_ext).items():
        if name.startswith("_"):
            continue
        members = {f"{name}.{m}": v for m, v in vars(value).items()} if isinstance(value, type) else {
            name: value
        }
        for path, member in members.items():
            if path.split(".")[-1].startswith("_") and not path.endswith(".__init__"):
                continue
            if not callable(member):
                found[path] = None
                continue
            signature = member.__doc__.splitlines()[0]
            inside = re.search(r"\((.*)\)", signature).group(1)
            names = re.findall(r"(?:^|, )(\w+)(?=[:=,]|$)", re.sub(r"\[[^\]]*\]", "", inside))
            found[path] = [n for n in names if n != "self"]
    return found


def test_the_stub_is_the_compiled_module():
    assert stub_functions() == compiled_functions()


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()
