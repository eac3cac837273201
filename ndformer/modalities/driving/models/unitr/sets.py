"""Dynamic set partition (DSVT, Wang 2023): the tokens of each window divided into sets of equal size."""

import torch
from torch import Tensor

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows

LENGTHS = 4  # largest number of groups by length


def partition(
    cells: Tensor, group: Tensor, window: tuple[int, int], shift: tuple[int, int], size: int, major: int
) -> Rows:
    """Divide T tokens in integer cells (T, 2) of planes `group` (T,) into sets of `size` slots within windows.

    Windows start at multiples of `window` minus `shift`. The n tokens of a window are sorted by cell, the axis `major`
    first; tokens in the same cell stay in order. They go to S = ceil(n / size) sets of nearly equal length: slot i of
    set j has token floor((size j + i) n / (size S)), and is empty if that is the token of the slot before. So each
    token is in exactly one slot.
    """
    sides = tensor_like(window, cells)
    moved = cells + tensor_like(shift, cells)
    numbers = moved.div(sides, rounding_mode="floor")  # (T, 2) of windows
    inside = moved - numbers * sides
    key = inside[:, major] * window[1 - major] + inside[:, 1 - major]
    if len(cells):
        numbers = numbers - numbers.amin(0)
        along = numbers[:, 1].amax() + 1
        number = (group * (numbers[:, 0].amax() + 1) + numbers[:, 0]) * along + numbers[:, 1]
    else:
        number = group
    order = (number * (window[0] * window[1]) + key).argsort(stable=True)
    counts = torch.unique_consecutive(number[order], return_counts=True)[1]  # (windows,)
    sets = (counts + size - 1) // size
    owner = torch.repeat_interleave(sets)  # (R,) the window of each set
    first = torch.arange(len(owner), device=cells.device) - (sets.cumsum(0) - sets)[owner]  # index within its window
    slot = size * first[:, None] + torch.arange(size, device=cells.device)  # (R, size)
    rank = (slot * counts[owner][:, None]).div(size * sets[owner][:, None], rounding_mode="floor")
    index = order[(counts.cumsum(0) - counts)[owner][:, None] + rank]
    valid = torch.ones_like(index, dtype=torch.bool)
    valid[:, 1:] = rank[:, 1:] != rank[:, :-1]
    return Rows(index, valid)


def by_length(rows: Rows) -> list[Rows]:
    """Group sets by how full they are (quarters) and remove empty slots: each group is as wide as its fullest set.

    Tokens stay in order.
    """
    counts, size = rows.valid.sum(1), rows.valid.shape[1]
    index = rows.index.gather(1, (~rows.valid).to(torch.uint8).argsort(dim=1, stable=True))
    group = (counts * LENGTHS - 1).div(size, rounding_mode="floor")
    groups = []
    for quarter in group.unique().tolist():
        members = (group == quarter).nonzero().squeeze(1)
        filled = counts[members]
        width = int(filled.max())
        groups.append(Rows(index[members, :width], torch.arange(width, device=index.device) < filled[:, None]))
    return groups
