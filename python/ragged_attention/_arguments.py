"""Arguments of Python's many types as the few that the library takes. Each function names the
argument, what was expected and what came. No array library is imported: their objects say what they
are.
"""

from __future__ import annotations

import operator
from typing import Any

from ragged_attention.config import RaggedAttnBackend
from ragged_attention.errors import InvalidArgumentError, WrongTypeError

_DTYPE_NAMES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
}
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def integer(name: str, value: Any, most: int = _INT32_MAX) -> int:
    """A whole number; NumPy's count too, True and 1.0 do not."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise WrongTypeError(f"{name} must be a whole number; got {value!r}") from None
    if abs(number) > most:
        raise InvalidArgumentError(f"{name} must be at most {most}; got {number}")
    return number


def optional_count(name: str, value: Any) -> int | None:
    return None if value is None else integer(name, value, _INT64_MAX)


def optional_number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise WrongTypeError(f"{name} must be a number or None; got {value!r}") from None


def flag(name: str, value: Any) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise WrongTypeError(f"{name} must be True or False; got {value!r}")


def text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise WrongTypeError(f"{name} must be a string; got {value!r}")


def device(name: str, value: Any) -> str:
    """ "cpu", "cuda", "cuda:1": from a string, a torch.device, or an object like those of JAX and
    CuPy. The number of a CUDA device is torch's current one unless given."""
    if hasattr(value, "platform") and hasattr(value, "id"):  # JAX
        kind = {"gpu": "cuda"}.get(value.platform, value.platform)
        return "cpu" if kind == "cpu" else f"{kind}:{value.id}"
    if type(value).__module__.startswith("cupy"):
        return f"cuda:{value.id}"
    spelled = str(value)
    if not isinstance(value, str) and type(value).__name__ != "device":
        raise WrongTypeError(f"{name} must be a device, for example 'cpu' or 'cuda:0'; got {value!r}")
    if spelled == "cuda":
        from ragged_attention._streams import current_device

        return f"cuda:{current_device()}"
    return spelled


def dtype(name: str, value: Any) -> str:
    """ "bf16", "fp16" or "fp32": from those and their longer names, or a dtype of torch, NumPy or
    JAX."""
    spelled = value if isinstance(value, str) else getattr(value, "name", None)
    if spelled is None:
        spelled = value.__name__ if isinstance(value, type) else str(value)
    known = _DTYPE_NAMES.get(str(spelled).removeprefix("torch."))
    if known is None:
        if not isinstance(value, str) and not _looks_like_dtype(value):
            raise WrongTypeError(f"{name} must be a dtype or its name; got {value!r}")
        raise InvalidArgumentError(f"{name} must be bf16, fp16 or fp32; got {value!r}")
    return known


def _looks_like_dtype(value: Any) -> bool:
    return isinstance(value, type) or "dtype" in type(value).__name__.lower()


def backend(name: str, value: Any) -> str:
    if isinstance(value, RaggedAttnBackend):
        return value.value
    if isinstance(getattr(value, "value", None), str):  # an engine's own enum
        return str(value.value)
    return text(name, value)
