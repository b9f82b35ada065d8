"""What this build and this machine offer."""

from __future__ import annotations

from ragged_attention import _ext


def built_backends() -> list[str]:
    """Names of the backends in this build, in the order in which AUTO prefers them."""
    return _ext.built_backends()


def device_facts() -> str:
    """What plans for this machine's CPU are made for, as `facts` of a wrapper takes it:
    "cpu:avx2:8"."""
    return _ext.device_facts()
