"""What the library refuses, as exceptions. Each is of the kind that Python users expect, all are
`Error`, and their text is the library's own: it names the argument, what was expected and what came.
"""

from __future__ import annotations

__all__ = [
    "DeviceError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "InvalidStateError",
    "NotPlannedError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "UnsupportedError",
    "WrongTypeError",
]


class Error(Exception):
    """Any refusal of this library. `code` is its kind, by the name that C and C++ have for it."""

    code = "internal"

    def __str__(self) -> str:
        # KeyError would show the text in quotes.
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(Error, ValueError):
    """An argument is malformed, or does not fit the plan."""

    code = "invalid_argument"


class OutOfRangeError(Error, ValueError):
    """A count is above a declared ceiling; the text holds both."""

    code = "out_of_range"


class UnsupportedError(Error, NotImplementedError):
    """No backend of this build serves it; the text holds each backend's reason. A RuntimeError."""

    code = "unsupported"


class NotPlannedError(Error, KeyError, RuntimeError):
    """A run without a plan, or on a label that this step did not declare."""

    code = "not_planned"


class InvalidStateError(Error, RuntimeError):
    """A call out of order: a preplan without a lease, a second pending one, another step's."""

    code = "invalid_state"


class DeviceError(Error, RuntimeError):
    """The device or its driver refused."""

    code = "device"


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed."""

    code = "out_of_memory"


class InternalError(Error, RuntimeError):
    """A bug of this library."""

    code = "internal"


class WrongTypeError(Error, TypeError):
    """An argument of a Python type that does not fit."""

    code = "wrong_type"


_BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        OutOfRangeError,
        UnsupportedError,
        NotPlannedError,
        InvalidStateError,
        DeviceError,
        OutOfMemoryError,
        InternalError,
        WrongTypeError,
    )
}


def from_code(code: str, message: str) -> Error:
    """The exception of a code of the library's."""
    return _BY_CODE.get(code, InternalError)(message)
