"""Dynamic set partition (DSVT, Wang 2023): windows of a plane cut into sets of equal size, each a row of attention."""

import torch
from torch import Tensor

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows

LENGTHS = 4  # groups of sets, at most


def partition(
    cells: Tensor, group: Tensor, window: tuple[int, int], shift: tuple[int, int], size: int, major: int
) -> Rows:
    """T tokens in whole cells (T, 2) of planes `group` (T,), as sets of `size` slots.

    Windows begin at multiples of `window` less `shift`. The n tokens of one are put in order by cell, along the axis
    `major` first, and where they share a cell as they came. S = ceil(n / size) sets take them: slot i of set j has
    token floor((size j + i) n / (size S)), so that sets are alike in number. Where that is the token of the slot
    before, the slot is empty: each token is in exactly one.
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
    of = torch.repeat_interleave(sets)  # (R,) the window of each set
    first = torch.arange(len(of), device=cells.device) - (sets.cumsum(0) - sets)[of]  # which of its window's sets
    slot = size * first[:, None] + torch.arange(size, device=cells.device)  # (R, size)
    rank = (slot * counts[of][:, None]).div(size * sets[of][:, None], rounding_mode="floor")
    index = order[(counts.cumsum(0) - counts)[of][:, None] + rank]
    valid = torch.ones_like(index, dtype=torch.bool)
    valid[:, 1:] = rank[:, 1:] != rank[:, :-1]
    return Rows(index, valid)


def by_length(rows: Rows) -> list[Rows]:
    """The same sets without most of their empty slots: those up to a quarter full, up to half ... together, each group
    as wide as its fullest. Tokens keep their order."""
    counts, size = rows.valid.sum(1), rows.valid.shape[1]
    index = rows.index.gather(1, (~rows.valid).to(torch.uint8).argsort(dim=1, stable=True))
    group = (counts * LENGTHS - 1).div(size, rounding_mode="floor")
    groups = []
    for one in group.unique().tolist():
        own = (group == one).nonzero().squeeze(1)
        filled = counts[own]
        width = int(filled.max())
        groups.append(Rows(index[own, :width], torch.arange(width, device=index.device) < filled[:, None]))
    return groups
