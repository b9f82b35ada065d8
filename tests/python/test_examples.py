"""Examples run, and check themselves."""

import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
NO_WEIGHTS = 77


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_example(name):
    if name not in ("first_use", "streaming_audio"):
        pytest.importorskip("torch")
    if name == "embed_sentences":
        pytest.importorskip("transformers")
    done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], capture_output=True,
                          text=True, check=False)
    if done.returncode == NO_WEIGHTS:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_the_examples_are_here():
    assert len(list(FOLDER.glob("*.py"))) >= 6
