"""Coverage: which wavelengths, table steps and radii of an encoding the distances between tokens make use of.

span = Span.measure([where], factors=(1.0, 1.0))        # in the unit of the encoding
coverage = waves("waves along axis 0", [6.3, 30.0], span.step[0], span.extent[0], lambda longest: f"base={longest:g}")
coverage.counts, coverage.warnings
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ndformer.framework.encoding.spacing import Spacing, placed_rows
from ndformer.framework.tokens import Where

MIN_TURN = 1 / 8  # rotations over the extent; a wave that turns less is nearly constant
AUTO = "position_scale='auto' makes neighbors about 1 apart"


class Span(NamedTuple):
    """Extent and spacing of token positions."""

    extent: tuple[float, ...]  # per axis, of the widest sample
    step: tuple[float, ...]  # per axis, of a grid, or approximate for free tokens
    nearest: float  # median distance to the nearest neighbor
    on_grid: bool
    low: tuple[float, ...]  # per axis, the minimum over all samples
    high: tuple[float, ...]
    tokens: int  # largest number of tokens in a sample

    @property
    def cells(self) -> tuple[int, ...]:
        """The number of distinct positions per axis, one step apart."""
        return tuple(1 + round(extent / step) if step > 0 else 1 for extent, step in zip(self.extent, self.step))

    @classmethod
    def measure(cls, wheres: Sequence[Where], factors: tuple[float, ...]) -> Span | None:
        """Measure positions times `factors`; None if no sample has two different positions."""
        spacing = Spacing.measure(wheres, factors)
        if spacing is None:
            return None
        rows = [r * r.new_tensor(factors) for where in wheres for r in placed_rows(where) if len(r)]
        lows, highs = torch.stack([r.amin(0) for r in rows]), torch.stack([r.amax(0) for r in rows])
        extent, low, high = (tuple(bound.tolist()) for bound in ((highs - lows).amax(0), lows.amin(0), highs.amax(0)))
        on_grid = all(where.grid is not None for where in wheres)
        step = spacing.unit if on_grid else tuple(map(max, spacing.unit, _gaps(rows)))
        return cls(extent, step, spacing.nearest, on_grid, low, high, max(map(len, rows)))


class Coverage(NamedTuple):
    """One set of lengths of an encoding (wavelengths, steps, radii) and the range of lengths in use."""

    name: str  # "waves along axis 0"
    lengths: tuple[float, ...]
    short: float  # shorter ones are not used
    long: float  # longer ones are not used
    why: tuple[str, str]  # descriptions of too short and too long ones
    warnings: tuple[str, ...] = ()  # each with the setting to change
    note: str = ""  # remark on the used ones

    def prefixed(self, prefix: str) -> Coverage:
        """Return this coverage with names and warnings that begin with `prefix`."""
        warnings = tuple(f"{prefix}: {text}" for text in self.warnings)
        return self._replace(name=f"{prefix}: {self.name}", warnings=warnings)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The number of lengths that are too short, used and too long."""
        short, long = sum(n < self.short for n in self.lengths), sum(n > self.long for n in self.lengths)
        return short, len(self.lengths) - short - long, long


def _gaps(rows: Sequence[torch.Tensor]) -> list[float]:
    """Return the median gap between sorted distinct coordinates per axis; free tokens may be at integers."""
    gaps = [[axis.unique().diff() for axis in r.unbind(1)] for r in rows[:32]]
    return [torch.cat(axis).median().item() if any(map(len, axis)) else 0.0 for axis in zip(*gaps)]


def waves(name: str, lengths: Sequence[float], step: float, extent: float, hint: Callable[[float], str]) -> Coverage:
    """Return the coverage of wavelengths: used waves turn at least MIN_TURN over the extent and at most half a turn
    between neighbors. `hint` returns the setting for which the longest wave has a given length.
    """
    why = "turn more than half around from one token to the next", f"turn less than 1/{1 / MIN_TURN:g} over the extent"
    coverage = Coverage(name, tuple(lengths), 2 * step, extent / MIN_TURN, why)
    few, used, many = coverage.counts
    total = f"of {len(lengths)} {name}"
    warnings = []
    if 4 * few > len(lengths):
        warnings.append(f"{few} {total} {why[0]}, tokens being {step:.3g} apart: {AUTO}")
    if not used and many:
        warnings.append(f"{many} {total} {why[1]}, tokens being {step:.3g} apart and {extent:.3g} at most: {AUTO}")
    elif 2 * many > len(lengths):
        warnings.append(
            f"{many} {total} {why[1]}, which is {extent:.3g}: {hint(coverage.long)} has all of them turn that much"
        )
    return coverage._replace(warnings=tuple(warnings))


def ladder_base(longest: float, count: int) -> float:
    """Return the base for which the last of `count` frequencies base^(-i / count) has the wavelength `longest`."""
    return (longest / (2 * math.pi)) ** (count / max(1, count - 1))


def frequency_vectors(table: torch.Tensor, span: Span, hint: Callable[[float], str]) -> list[Coverage]:
    """Return the coverage of frequency vectors (..., P): per axis if all are on axes, else for all together.

    Vectors not on an axis count with the wavelength along the longest axis that gives the same rotations.
    """
    table = table.detach().double().cpu().reshape(-1, table.shape[-1]).abs()
    if ((table > 0).sum(1) == 1).all():
        lengths = [(2 * math.pi / axis[axis > 0]).tolist() for axis in table.unbind(1)]
        named = [(f"waves along axis {p}", *axis) for p, axis in enumerate(zip(lengths, span.step, span.extent))]
        return [waves(*args, hint) for args in named if args[1] and args[3] > 0]
    longest = max(span.extent)
    turns = table @ table.new_tensor(span.extent) / (2 * math.pi)
    return [waves("waves", (longest / turns).tolist(), min(span.step), longest, hint)]


def steps(limits: Sequence[float], begins: Sequence[Sequence[float]], span: Span, hint: str) -> list[Coverage]:
    """Return the coverage of tables over steps, one per axis; all steps from `limit` on share the last entry."""
    coverages = []
    for p, (limit, starts) in enumerate(zip(limits, begins)):
        extent, step, name = span.extent[p], span.step[p], f"steps along axis {p}"
        longest, warnings = round(extent), []
        if longest > limit:
            warnings.append(f"{name} end at {limit:g}, and tokens are up to {longest} apart: {hint.format(longest)}")
        elif 2 * sum(start > longest for start in starts) > len(starts):
            warnings.append(
                f"most {name} are never used, tokens being up to {longest} apart: {hint.format(max(1, longest))}"
            )
        if extent > 0 and (step < 0.5 or (span.on_grid and step >= 1.5)):
            effect = "several tokens share a step" if step < 1 else "steps between are never used"
            warnings.append(f"along axis {p} tokens are {step:.3g} apart, and {effect}: {AUTO}")
        coverages.append(Coverage(name, tuple(starts), 0, longest, ("", "are never used"), tuple(warnings)))
    return coverages


def cells(axis: int, count: int, first: float, last: float, hint: str) -> Coverage:
    """Return the coverage of a table over positions, of which tokens use the cells from `first` to `last`."""
    name = f"cells along axis {axis}"
    coverage = Coverage(
        name, tuple(range(count)), math.floor(first), math.ceil(last), ("are below all tokens", "are above all tokens")
    )
    beyond = max(-first, last - (count - 1)) > 0.5
    if beyond:
        return coverage._replace(warnings=(f"tokens are outside the {name} and share those at the border: {hint}",))
    few = 2 * coverage.counts[1] < count
    return coverage._replace(warnings=(f"most {name} are never used: {hint}",) if few else ())


def sums(name: str, entries: int, tokens: int) -> Coverage:
    """Return the coverage of a table indexed by the sum of gates (0 to 1) of the tokens in between.

    At initialization gates are 0.5.
    """
    last, why = entries - 1, ("", "are larger than any sum of gates")
    coverage = Coverage(name, tuple(range(entries)), 0, tokens, why)
    if tokens / 2 > last:
        size = math.ceil(tokens / 2) + 1
        text = f"{name} end at {last}, and initial gates of {tokens} tokens sum to {tokens / 2:g}: npos_max={size}"
        return coverage._replace(warnings=(text,))
    if entries > 2 * (tokens + 1):
        return coverage._replace(warnings=(f"most {name} are never used with {tokens} tokens: npos_max={tokens + 1}",))
    return coverage


def longer_steps(axis: int, cells: int, train_cells: int) -> Coverage:
    """Return the coverage of steps on a grid by a function trained on another grid."""
    why = "", f"are longer than the steps of {train_cells} cells in training"
    coverage = Coverage(f"steps along axis {axis}", tuple(range(1, max(2, cells))), 0, max(1, train_cells - 1), why)
    text = f"{coverage.counts[2]} steps along axis {axis} {why[1]}: it extrapolates there"
    return coverage._replace(warnings=(text,) if coverage.counts[2] else ())


def slope_radii(slopes: Sequence[float], span: Span) -> Coverage:
    """Return the coverage of weights exp(-slope d), about 0.01 at 5 / slope."""
    return radii([1 / slope for slope in slopes], span, 5, 8, AUTO, lambda d: math.exp(-d))


def gaussians(lengths: Sequence[float], span: Span, hint: str) -> Coverage:
    """Return the coverage of weights exp(-d^2 / 2 r^2), about 0.01 at three radii."""
    return radii(lengths, span, 3, 2, hint, lambda d: math.exp(-(d**2) / 2))


def radii(
    lengths: Sequence[float], span: Span, cutoff: float, flat: float, hint: str, weight: Callable[[float], float]
) -> Coverage:
    """Return the coverage of radii: a token within `cutoff` radii weighs more than 0.01, and from a radius of `flat`
    extents on all weigh nearly the same. `weight` maps a distance in radii to the weight of a token.
    """
    why = "do not reach the nearest token", "weigh all tokens nearly equally"
    coverage = Coverage("radii", tuple(lengths), span.nearest / cutoff, flat * math.hypot(*span.extent), why)
    few, _, many = coverage.counts
    total = f"of {len(lengths)} radii"
    low = [length for length in lengths if coverage.short <= length < span.nearest]
    if low:
        ends = dict.fromkeys(f"{weight(span.nearest / length):.2g}" for length in (min(low), max(low)))
        shorter = f"{len(low)} shorter than a step, {span.nearest:.3g}: the nearest token weighs {' to '.join(ends)}"
        coverage = coverage._replace(note=shorter)
    warnings = [f"{few} {total} {why[0]}, {span.nearest:.3g} away: {hint}"] if 2 * few > len(lengths) else []
    if 2 * many > len(lengths):
        warnings.append(f"{many} {total} {why[1]}, the farthest being {math.hypot(*span.extent):.3g} away: {hint}")
    return coverage._replace(warnings=tuple(warnings))


def initial_radius_coverage(radius: float, span: Span) -> Coverage:
    """Return the coverage of an encoding that defines only `initial_radius`."""
    why = "does not reach the nearest token", ""
    warnings = () if radius >= span.nearest else (f"the initial radius {why[0]}, {span.nearest:.3g} away: {AUTO}",)
    return Coverage("initial radius", (radius,), span.nearest, math.inf, why, warnings)
