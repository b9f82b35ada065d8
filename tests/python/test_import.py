"""What importing costs, and where it works."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import ragged_attention as ra


def loaded_after(statement):
    """Names of the modules that a fresh interpreter holds after `statement`."""
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_declaring_loads_no_kernel_and_no_array_library():
    modules = loaded_after(
        "from ragged_attention.config import RaggedAttentionConfig, RaggedAttentionSpec\n"
        "spec = RaggedAttentionSpec('a', {'n'}, RaggedAttentionConfig(8, 8, 64))"
    )
    assert "ragged_attention.config" in modules
    for name in ("ragged_attention._ext", "ragged_attention.wrappers", "ragged_attention.manager",
                 "nanobind_backend", "torch", "numpy", "jax"):
        assert name not in modules


def test_wrappers_load_no_array_library():
    modules = loaded_after(
        "import ragged_attention as ra\n"
        "w = ra.RaggedPrefillWrapper(1, 1, 64, device='cpu'); w.plan([0, 3]); w.explain()"
    )
    assert "ragged_attention._ext" in modules
    assert not {"torch", "numpy", "jax"} & modules


def test_everything_but_torchs_part_works_where_there_is_no_torch():
    modules = loaded_after(
        "sys.modules['torch'] = None\n"
        "import numpy as np, ragged_attention as ra\n"
        "w = ra.RaggedPrefillWrapper(1, 1, 8, device='cpu', q_data_type='fp32'); w.plan([0, 3])\n"
        "x = np.ones((4, 1, 8), np.float32)\n"
        "assert np.allclose(w.run(x, x, x)[:, 0, 0], [1, 1, 1, 0])"
    )
    assert "numpy" in modules


@pytest.mark.skipif(not {"sm80", "sm90"} & set(ra.built_backends()), reason="no GPU kernels in this build")
@pytest.mark.skipif(pathlib.Path("/dev/nvidiactl").exists(), reason="a GPU is here")
def test_a_build_with_gpu_kernels_serves_a_machine_without_a_gpu():
    x = np.ones((3, 1, 8), np.float32)
    attend = ra.RaggedPrefillWrapper(1, 1, 8, device="cpu", q_data_type="fp32")
    attend.plan([0, 3])
    assert np.allclose(attend.run(x, x, x), 1)
    with pytest.raises(ra.UnsupportedError, match="cuda:0 is not here: no CUDA driver"):
        ra.RaggedPrefillWrapper(2, 2, 64)


def test_a_spec_names_its_builder_lazily():
    spec = ra.RaggedAttentionSpec("a", {"n"}, ra.RaggedAttentionConfig(8, 8, 64))
    assert spec.resource_class is ra.RaggedAttentionManager


def test_every_public_name_resolves_and_is_documented():
    for name in ra.__all__:
        value = getattr(ra, name)
        if isinstance(value, type) or callable(value):
            assert (value.__doc__ or "").strip(), name
    assert set(ra.__all__) <= set(dir(ra))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ra.nothing


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert ra.__version__ == version("ragged_attention")
