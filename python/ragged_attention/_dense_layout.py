"""Layouts of the dense wrappers, as tensors on their device: offsets, and which row of which source each
joined key is. Nothing here waits for a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ragged_attention.errors import InvalidArgumentError, OutOfRangeError, WrongTypeError

_LARGEST_OFFSET = 2**31 - 1  # of the kernel's int32


@dataclass(frozen=True)
class Offsets:
    """One packed layout. cu_seqlens: int32 on the device, longer than num_segments + 1 where segments of
    no tokens were added. total: its tokens, and lengths: each segment's, on the host; None where only the
    device knows them. varies: a captured run must serve other layouts too, and takes no shape from it."""

    cu_seqlens: torch.Tensor
    num_segments: int
    total: int | None
    lengths: torch.Tensor | None
    varies: bool = False

    @property
    def rows(self) -> int | None:
        """How many rows a run may cut its tensors to."""
        return None if self.varies else self.total

    @property
    def longest(self) -> int | None:
        if self.lengths is None:
            return None
        return int(self.lengths.max()) if self.lengths.numel() else 0


def to_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy that the host does not wait for: from fresh pinned memory, which torch keeps until the copy
    is done."""
    if device.type == "cuda" and not values.is_cuda:
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def integers(name: str, values: Any, ndim: int) -> torch.Tensor:
    """A list or tensor of whole numbers as a tensor of torch, where it is."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise WrongTypeError(
            f"{name} must be a list or a tensor of int32 or int64; got {type(values).__name__}"
        ) from None
    if tensor.dtype not in (torch.int32, torch.int64):
        raise InvalidArgumentError(f"{name} must be of dtype int32 or int64; got {tensor.dtype}")
    if tensor.ndim != ndim:
        raise InvalidArgumentError(
            f"{name} must have {ndim} dimensions; got shape {list(tensor.shape)}"
        )
    return tensor


def offsets(name: str, values: Any, device: torch.device) -> Offsets:
    """Host offsets are checked, and the first bad entry is named; those of a device are taken as they
    are."""
    tensor = integers(name, values, 1)
    if tensor.numel() < 1:
        raise InvalidArgumentError(f"{name} must have at least 1 entry; got 0")
    segments = tensor.numel() - 1
    if tensor.device.type != "cpu":
        return Offsets(tensor.to(device, torch.int32), segments, None, None)
    tensor = tensor.long()
    if int(tensor[0]) != 0:
        raise InvalidArgumentError(f"{name}[0] must be 0; got {int(tensor[0])}")
    lengths = tensor.diff()
    if bool((lengths < 0).any()):
        i = int((lengths < 0).nonzero()[0]) + 1
        raise InvalidArgumentError(
            f"{name}[{i}] = {int(tensor[i])} is less than {name}[{i - 1}] = {int(tensor[i - 1])}"
        )
    total = int(tensor[-1])
    if total > _LARGEST_OFFSET:
        raise InvalidArgumentError(
            f"{name}[{segments}] = {total} is more than the largest offset, {_LARGEST_OFFSET}"
        )
    return Offsets(to_device(tensor.int(), device), segments, total, lengths)


def refuse_above(count: int | None, unit: str, ceiling_name: str, ceiling: int | None) -> None:
    if count is not None and ceiling is not None and count > ceiling:
        raise OutOfRangeError(f"{count} {unit} exceed {ceiling_name} = {ceiling}")


def padded(cu_seqlens: torch.Tensor, entries: int) -> torch.Tensor:
    """The same layout with `entries` offsets: segments of no tokens follow."""
    more = entries - cu_seqlens.numel()
    return torch.cat([cu_seqlens, cu_seqlens[-1:].expand(more)]) if more else cu_seqlens


@dataclass
class PageTable:
    """Where prefix keys are: key j of segment i is slot j % page_size of page pages[i, j // page_size].
    last_page: the largest page that a prefix names, -1 where only the device knows."""

    pages: torch.Tensor
    page_size: int
    last_page: int = -1

    @classmethod
    def of(cls, values: Any, page_size: int, prefix: Offsets) -> PageTable:
        """Checks what the host knows: the table's shape, and with host offsets that it is wide enough
        and names no page below 0. Added segments get rows of their own."""
        table = integers("page_table", values, 2)
        if page_size < 1:
            raise InvalidArgumentError(f"page_size must be at least 1; got {page_size}")
        if table.shape[0] != prefix.num_segments:
            raise InvalidArgumentError(
                f"page_table must have a row for each of {prefix.num_segments} segments; got "
                f"{table.shape[0]}"
            )
        held = table.shape[1] * page_size
        longest = prefix.longest
        if longest is not None and longest > held:
            raise InvalidArgumentError(
                f"page_table must hold a prefix of {longest} keys; got {table.shape[1]} pages of "
                f"{page_size}"
            )
        last = -1
        if prefix.lengths is not None and table.device.type == "cpu":
            used = torch.arange(table.shape[1]) * page_size < prefix.lengths[:, None]
            if bool((used & (table < 0)).any()):
                i, j = (used & (table < 0)).nonzero()[0].tolist()
                raise InvalidArgumentError(
                    f"page_table[{i}, {j}] must be a page; got {int(table[i, j])}"
                )
            last = int(table[used].max()) if bool(used.any()) else -1
        added = prefix.cu_seqlens.numel() - 1 - prefix.num_segments
        pages = to_device(table, prefix.cu_seqlens.device)
        if added:
            pages = torch.cat([pages, pages.new_zeros(added, pages.shape[1])])
        return cls(pages, page_size, last)


@dataclass
class JoinIndex:
    """Joined keys [prefix | fresh] of every segment: row i of them is row `rows[i]` of the prefix source
    (slot `slots[i]` of page `rows[i]`), unless fresh row j goes there, `fresh[j] == i`. One more row, the
    last, takes fresh rows past the plan. `past`: rows after the last key; None where there are none."""

    cu_seqlens: torch.Tensor
    rows: torch.Tensor
    slots: torch.Tensor | None
    fresh: torch.Tensor
    past: torch.Tensor | None

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: x for name, x in vars(self).items() if x is not None}

    def join(self, prefix: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        """[joined keys, heads, head_dim] of a packed prefix [tokens, heads, head_dim], or of a cache
        [pages, page_size, heads, head_dim]; each row is copied once, whatever the strides."""
        if prefix.shape[0] == 0:
            joined = fresh.new_empty((self.rows.numel(), *fresh.shape[1:]))
        elif self.slots is None:
            joined = prefix.index_select(0, self.rows)
        else:
            joined = prefix[self.rows, self.slots]
        count = min(fresh.shape[0], self.fresh.numel())
        joined.index_copy_(0, self.fresh[:count], fresh[:count])
        joined = joined[:-1]
        if self.past is not None:
            # The kernel reads tiles to their end, and 0 times NaN is NaN.
            joined.masked_fill_(self.past[:, None, None], 0)
        return joined


def join_index(
    q: torch.Tensor, prefix: torch.Tensor, key_rows: int, fresh_rows: int, exact: bool,
    pages: PageTable | None = None,
) -> JoinIndex:  # fmt: skip
    """q, prefix: cu_seqlens of the same length on one device. key_rows, fresh_rows: bounds; exact where
    key_rows is the total itself. All on the device."""
    device, most = q.device, max(q.numel() - 2, 0)
    q, prefix = q.long(), prefix.long()
    keys = q + prefix
    place = torch.arange(key_rows + 1, device=device)
    segment = (torch.searchsorted(keys, place, right=True) - 1).clamp_(max=most)
    # Key i of a segment is key i of its prefix while it has one.
    inside = place - keys[segment]
    following = (segment + 1).clamp_(max=q.numel() - 1)
    from_prefix = (inside < prefix[following] - prefix[segment]) & (place < keys[-1])
    slots = None
    if pages is None:
        rows = torch.where(from_prefix, place - q[segment], 0)
    elif pages.pages.numel() == 0:
        rows = slots = torch.zeros_like(place)
    else:
        inside = torch.where(from_prefix, inside, 0)
        page = pages.pages[segment, inside // pages.page_size].long()
        rows, slots = torch.where(from_prefix, page, 0), inside % pages.page_size
    row = torch.arange(fresh_rows, device=device)
    owner = (torch.searchsorted(q, row, right=True)).clamp_(max=q.numel() - 1)
    fresh = torch.where(row < q[-1], row + prefix[owner], key_rows)
    past = None if exact else place[:-1] >= keys[-1]
    return JoinIndex(keys.int(), rows, slots, fresh, past)
