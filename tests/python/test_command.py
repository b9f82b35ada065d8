"""`python -m ragged_attention` is the command `ragged`."""

import subprocess
import sys

import ragged_attention as ra


def command(*words):
    return subprocess.run([sys.executable, "-m", "ragged_attention", *words], capture_output=True,
                          text=True, check=False)


def test_version():
    assert command("--version").stdout.strip() == f"ragged {ra.__version__}"


def test_run():
    done = command("run", "--lengths", "3,17", "--heads", "2", "--head-dim", "64")
    assert done.returncode == 0 and done.stdout.rstrip().endswith("right"), done.stderr


def test_draw(tmp_path):
    done = command("draw", "--lengths", "30,8", "--output", str(tmp_path / "plan.svg"))
    assert done.returncode == 0 and (tmp_path / "plan.svg").read_text().startswith("<svg")


def test_refusals_have_the_status_of_the_command():
    done = command("run", "--lengths", "3,x")
    assert done.returncode == 2 and done.stderr.startswith("ragged: --lengths")
    assert done.stderr.count("\n") == 1
