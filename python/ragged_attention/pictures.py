"""Pictures of plans: segments, tiles, the keys that each query sees, and the arithmetic done in vain."""

from __future__ import annotations

import os
import pathlib

__all__ = ["Drawing"]


class Drawing:
    """A plan as SVG. A notebook shows it; `save` writes it to a file."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<ragged_attention.Drawing, SVG of {len(self.svg)} characters>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture to `path`."""
        pathlib.Path(path).write_text(self.svg, encoding="utf-8")
