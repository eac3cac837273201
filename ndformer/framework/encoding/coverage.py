"""What a data set uses of an encoding: waves, steps of tables, radii by their lengths, where tokens are so far apart.

span = Span.of([where], factors=(1.0, 1.0))                             # in the encoding's own unit
found = waves("waves along axis 0", [6.3, 30.0], span.step[0], span.extent[0], lambda longest: f"base={longest:g}")
found.counts, found.warnings
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ndformer.framework.encoding.spacing import Spacing, placed_rows
from ndformer.framework.tokens import Where

TURN = 1 / 8  # over the extent: a wave that turns less is as constant
AUTO = "position_scale='auto' makes neighbours about 1 apart"


class Span(NamedTuple):
    """How far tokens stand apart, per axis."""

    extent: tuple[float, ...]  # of the widest sample
    step: tuple[float, ...]  # from one to the next: of a grid, or of free tokens, about
    nearest: float  # from a token to its nearest neighbour, the median
    on_grid: bool
    low: tuple[float, ...]  # over all samples, as high
    high: tuple[float, ...]
    tokens: int  # of the sample that has most

    @property
    def cells(self) -> tuple[int, ...]:
        """Per axis, on how many places a token may stand, one step from the other."""
        return tuple(1 + round(extent / step) if step > 0 else 1 for extent, step in zip(self.extent, self.step))

    @classmethod
    def of(cls, wheres: Sequence[Where], factors: tuple[float, ...]) -> Span | None:
        """With positions times `factors`; None where no sample has two tokens at different places."""
        spacing = Spacing.of(wheres, factors)
        if spacing is None:
            return None
        rows = [r * r.new_tensor(factors) for where in wheres for r in placed_rows(where) if len(r)]
        lows, highs = torch.stack([r.amin(0) for r in rows]), torch.stack([r.amax(0) for r in rows])
        extent, low, high = (tuple(of.tolist()) for of in ((highs - lows).amax(0), lows.amin(0), highs.amax(0)))
        on_grid = all(where.grid is not None for where in wheres)
        step = spacing.unit if on_grid else tuple(map(max, spacing.unit, _gaps(rows)))
        return cls(extent, step, spacing.nearest, on_grid, low, high, max(map(len, rows)))


class Coverage(NamedTuple):
    """One kind of things that an encoding has, each with a length."""

    what: str  # "waves along axis 0"
    lengths: tuple[float, ...]
    short: float  # what is shorter is not used
    long: float  # nor what is longer
    why: tuple[str, str]  # of what is too short, of what is too long
    warnings: tuple[str, ...] = ()  # with what to set
    note: str = ""  # on those that are used

    def of(self, name: str) -> Coverage:
        """Among those of other encodings."""
        return self._replace(what=f"{name}: {self.what}", warnings=tuple(f"{name}: {said}" for said in self.warnings))

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many are too short, used, too long."""
        short, long = sum(n < self.short for n in self.lengths), sum(n > self.long for n in self.lengths)
        return short, len(self.lengths) - short - long, long


def _gaps(rows: Sequence[torch.Tensor]) -> list[float]:
    """Per axis, from one coordinate of a sample to the next that there is: free tokens may stand on whole numbers."""
    gaps = [[of.unique().diff() for of in r.unbind(1)] for r in rows[:32]]
    return [torch.cat(of).median().item() if any(map(len, of)) else 0.0 for of in zip(*gaps)]


def waves(what: str, lengths: Sequence[float], step: float, extent: float, hint: Callable[[float], str]) -> Coverage:
    """Those that turn by TURN over the extent, and no more than half around from one token to the next. `hint` says
    what to set for the longest to be of a given length."""
    why = "turn more than half around from one token to the next", f"turn less than 1/{1 / TURN:g} over the extent"
    found = Coverage(what, tuple(lengths), 2 * step, extent / TURN, why)
    few, used, many = found.counts
    of = f"of {len(lengths)} {what}"
    said = []
    if 4 * few > len(lengths):
        said.append(f"{few} {of} {why[0]}, tokens being {step:.3g} apart: {AUTO}")
    if not used and many:
        said.append(f"{many} {of} {why[1]}, tokens being {step:.3g} apart and {extent:.3g} at most: {AUTO}")
    elif 2 * many > len(lengths):
        said.append(f"{many} {of} {why[1]}, which is {extent:.3g}: {hint(found.long)} has all of them turn that much")
    return found._replace(warnings=tuple(said))


def ladder_base(longest: float, count: int) -> float:
    """Of `count` frequencies base^(-i / count), of which the last has this wavelength."""
    return (longest / (2 * math.pi)) ** (count / max(1, count - 1))


def frequency_vectors(table: torch.Tensor, span: Span, hint: Callable[[float], str]) -> list[Coverage]:
    """Waves of (..., P) vectors: for each axis, or, where they are on none, all together, with the lengths that they
    would have along the longest axis to turn as often over the extent."""
    table = table.detach().double().cpu().reshape(-1, table.shape[-1]).abs()
    if ((table > 0).sum(1) == 1).all():
        lengths = [(2 * math.pi / of[of > 0]).tolist() for of in table.unbind(1)]
        named = [(f"waves along axis {p}", *of) for p, of in enumerate(zip(lengths, span.step, span.extent))]
        return [waves(*of, hint) for of in named if of[1] and of[3] > 0]
    longest = max(span.extent)
    turns = table @ table.new_tensor(span.extent) / (2 * math.pi)
    return [waves("waves", (longest / turns).tolist(), min(span.step), longest, hint)]


def steps(reaches: Sequence[float], begins: Sequence[Sequence[float]], span: Span, hint: str) -> list[Coverage]:
    """Entries of tables, one table an axis, by the step at which each begins; from `reach` on all share the last."""
    found = []
    for p, (reach, starts) in enumerate(zip(reaches, begins)):
        extent, step, what = span.extent[p], span.step[p], f"steps along axis {p}"
        most, said = round(extent), []
        if most > reach:
            said.append(f"{what} end at {reach:g}, and tokens are up to {most} apart: {hint.format(most)}")
        elif 2 * sum(start > most for start in starts) > len(starts):
            said.append(f"most {what} are never met, tokens being up to {most} apart: {hint.format(max(1, most))}")
        if extent > 0 and (step < 0.5 or (span.on_grid and step >= 1.5)):
            so = "several tokens share a step" if step < 1 else "steps between are never met"
            said.append(f"along axis {p} tokens stand {step:.3g} apart, and {so}: {AUTO}")
        found.append(Coverage(what, tuple(starts), 0, most, ("", "are never met"), tuple(said)))
    return found


def cells(axis: int, count: int, first: float, last: float, hint: str) -> Coverage:
    """Of a table over places, of which tokens stand on those from `first` to `last`."""
    what = f"cells along axis {axis}"
    found = Coverage(what, tuple(range(count)), math.floor(first), math.ceil(last), ("lie below all", "lie above all"))
    beyond = max(-first, last - (count - 1)) > 0.5
    if beyond:
        return found._replace(warnings=(f"tokens stand beyond the {what}, on their border: {hint}",))
    few = 2 * found.counts[1] < count
    return found._replace(warnings=(f"most {what} are never met: {hint}",) if few else ())


def sums(what: str, entries: int, tokens: int) -> Coverage:
    """Entries of a table by the sum of gates, each from 0 to 1, at which they are met, of as many tokens in between;
    at the start gates are half open."""
    last, why = entries - 1, ("", "are beyond what all tokens between two come to")
    found = Coverage(what, tuple(range(entries)), 0, tokens, why)
    if tokens / 2 > last:
        met = math.ceil(tokens / 2) + 1
        said = f"{what} end at {last}, and half open gates of {tokens} tokens come to {tokens / 2:g}: npos_max={met}"
        return found._replace(warnings=(said,))
    if entries > 2 * (tokens + 1):
        return found._replace(warnings=(f"most {what} are never met, tokens being {tokens}: npos_max={tokens + 1}",))
    return found


def longest_steps(axis: int, cells: int, trained: int) -> Coverage:
    """Steps between cells of a grid, for what has learnt of another one."""
    why = "", f"are longer than those of {trained} cells, which it has learnt"
    found = Coverage(f"steps along axis {axis}", tuple(range(1, max(2, cells))), 0, max(1, trained - 1), why)
    few = f"{found.counts[2]} steps along axis {axis} {why[1]}: it guesses there"
    return found._replace(warnings=(few,) if found.counts[2] else ())


def slopes_of(slopes: Sequence[float], span: Span) -> Coverage:
    """exp(-slope d): a hundredth at five lengths."""
    return radii([1 / slope for slope in slopes], span, 5, 8, AUTO, lambda d: math.exp(-d))


def gaussians(lengths: Sequence[float], span: Span, hint: str) -> Coverage:
    """exp(-d^2 / 2 r^2): a hundredth at three radii."""
    return radii(lengths, span, 3, 2, hint, lambda d: math.exp(-(d**2) / 2))


def radii(
    lengths: Sequence[float], span: Span, sees: float, flat: float, hint: str, weight: Callable[[float], float]
) -> Coverage:
    """Up to `sees` radii away a token weighs more than a hundredth, of `flat` times the extent, all weigh alike; at
    so many radii it has a `weight`."""
    why = "do not reach the nearest token", "see all tokens alike"
    found = Coverage("radii", tuple(lengths), span.nearest / sees, flat * math.hypot(*span.extent), why)
    few, _, many = found.counts
    of = f"of {len(lengths)} radii"
    low = [length for length in lengths if found.short <= length < span.nearest]
    if low:
        ends = dict.fromkeys(f"{weight(span.nearest / length):.2g}" for length in (min(low), max(low)))
        shorter = f"{len(low)} shorter than a step, {span.nearest:.3g}: the nearest token weighs {' to '.join(ends)}"
        found = found._replace(note=shorter)
    said = [f"{few} {of} {why[0]}, {span.nearest:.3g} away: {hint}"] if 2 * few > len(lengths) else []
    if 2 * many > len(lengths):
        said.append(f"{many} {of} {why[1]}, the farthest being {math.hypot(*span.extent):.3g} away: {hint}")
    return found._replace(warnings=tuple(said))


def reach_of(reach: float, span: Span) -> Coverage:
    """Of an encoding that says no more than how far it begins by telling places apart."""
    why = "does not tell the nearest token", ""
    said = () if reach >= span.nearest else (f"the first reach {why[0]}, {span.nearest:.3g} away: {AUTO}",)
    return Coverage("first reach", (reach,), span.nearest, math.inf, why, said)
