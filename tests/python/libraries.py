"""The array libraries that tests run through: each can make its tensors from NumPy's, and back."""

import importlib
import importlib.util

import ml_dtypes
import numpy as np
import pytest


class NumPy:
    name = "numpy"
    dtypes = {"fp32": np.dtype("float32"), "fp16": np.dtype("float16"),
              "bf16": np.dtype(ml_dtypes.bfloat16)}

    def make(self, array, dtype):
        return np.ascontiguousarray(array).astype(self.dtypes[dtype])

    def index(self, values, bits=32):
        return np.asarray(values, f"int{bits}")

    def numpy(self, tensor):
        return np.asarray(tensor, np.float64)


class Torch:
    name = "torch"

    def __init__(self):
        self.torch = importlib.import_module("torch")
        self.dtypes = {"fp32": self.torch.float32, "fp16": self.torch.float16,
                       "bf16": self.torch.bfloat16}

    def make(self, array, dtype):
        return self.torch.tensor(np.ascontiguousarray(array)).to(self.dtypes[dtype])

    def index(self, values, bits=32):
        return self.torch.tensor(np.asarray(values), dtype=getattr(self.torch, f"int{bits}"))

    def numpy(self, tensor):
        return tensor.double().numpy()


class Jax:
    name = "jax"

    def __init__(self):
        self.jnp = importlib.import_module("jax.numpy")
        self.dtypes = {"fp32": self.jnp.float32, "fp16": self.jnp.float16,
                       "bf16": self.jnp.bfloat16}

    def make(self, array, dtype):
        return self.jnp.asarray(array, self.dtypes[dtype])

    def index(self, values, bits=32):
        return self.jnp.asarray(values, self.jnp.int32)  # JAX has int64 on request only

    def numpy(self, tensor):
        return np.asarray(tensor.astype(self.jnp.float32), np.float64)


def library(name):
    """The library of this name, or a skip where it is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return {"numpy": NumPy, "torch": Torch, "jax": Jax}[name]()


NAMES = ["numpy", "torch", "jax"]
