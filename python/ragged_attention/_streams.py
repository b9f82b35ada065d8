"""The device and stream that the array library in use works on. Asks those that are loaded already,
and loads none."""

from __future__ import annotations

import sys
from typing import Any


def _torch_cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def current_device() -> int:
    """The number of the current CUDA device; 0 where nobody has chosen one."""
    cuda = _torch_cuda()
    if cuda is not None:
        return int(cuda.current_device())
    cupy = sys.modules.get("cupy")
    return int(cupy.cuda.Device().id) if cupy is not None else 0


def current_stream(index: int) -> int:
    """The handle of the current stream of CUDA device `index`: torch's, else CuPy's, else 0."""
    cuda = _torch_cuda()
    if cuda is not None:
        return int(cuda.current_stream(index).cuda_stream)
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        with cupy.cuda.Device(index):
            return int(cupy.cuda.get_current_stream().ptr)
    return 0
