"""The promise about circular axes: a whole turn changes nothing, and neither does the place of the seam."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.contract.promise import NotApplicable, Worst, difference, dtype_name, promise
from ndformer.contract.trial import Trial
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.tokens import Where

PERIOD = 8.0  # unless periods are given
TURNS = {torch.float64: 2, torch.float32: 100}  # of tokens, at most
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-5}
FRACTION, COARSE = 64, 4  # positions are multiples of 1 / 64, or of 1 / 4, which half precision does not round either
SHORT, SMALL = 1e-8, 1e-4  # a step across the seam, and the largest change it may make


@promise("whole turns on circles")
def circles(tried: Sequence[Trial]) -> str:
    if not tried[0].encoding.circular_axes:
        raise NotApplicable("it has no option `periods`")
    worst: dict[torch.dtype, Worst] = {}
    seam = Worst()
    for trial in (Trial(_on_circles(t), t.dims) for t in tried):
        lengths = _lengths(trial)
        for dtype, turns in TURNS.items():
            grid = lengths * FRACTION
            if dtype == torch.float32 and (grid.frac().any() or turns * grid.max() >= 2**24):
                continue  # float32 would round positions many turns away
            model = trial.cast(dtype)
            x = model.samples[1].x.to(dtype)
            r = _on_grid(trial, _spans(trial) * torch.rand(len(x), trial.dims, dtype=torch.float64))
            away = r + lengths * torch.randint(-turns, turns + 1, r.shape)
            original, turned = (_results(model, x, positions.to(dtype)) for positions in (r, away))
            worst.setdefault(dtype, Worst()).compare(turned, original, f"{dtype_name(dtype)}, {trial.dims}-D")
        seam.update(_seam_change(trial), f"{trial.dims}-D")
    for dtype, largest in worst.items():
        largest.require(
            f"circular_axes is declared, but whole turns change outputs by {largest}: use the positions that "
            "tables() gets, which are wrapped, and not where.positions",
            limit=CLOSE[dtype],
        )
    seam.require(
        f"circular_axes is declared, but outputs depend on which end of the period is at 0 ({seam.case}): take "
        "differences the short way round (self.on_axes(layer) in layer()), and use round_to_turns() for "
        "frequencies, or set circular_axes = False",
        limit=1,
    )
    dtype = list(worst)[-1]
    return f"{TURNS[dtype]} turns change nothing ({worst[dtype].about})"


def _on_circles(trial: Trial) -> Any:
    """Return a constructor of the encoding on the circles that it has, or on circles along all axes."""

    def make(**place: Any) -> PositionEncoding:
        encoding = trial.make(**place)
        if not any(encoding.periods):
            encoding.periods = tuple(PERIOD for _ in range(place["position_dims"]))
        return encoding

    return make


def _lengths(trial: Trial) -> Tensor:
    """Return the periods (P,), 0 for lines."""
    return torch.tensor([period or 0.0 for period in trial.encoding.periods], dtype=torch.float64)


def _spans(trial: Trial) -> Tensor:
    """Return the extent (P,) of the positions: a period, also on lines."""
    lengths = _lengths(trial)
    return lengths.where(lengths > 0, PERIOD)


def _on_grid(trial: Trial, r: Tensor, fraction: int = FRACTION) -> Tensor:
    """Round positions to binary fractions, which stay exact some turns away, or to integers if the encoding does."""
    fraction = fraction if trial.encoding.float_positions else 1
    return (r * fraction).round() / fraction


def _seam_change(trial: Trial) -> float:
    """Return the change of the results, relative to the allowed one, when tokens cross the seam.

    They cross it all together, which changes no logit of a translation invariant encoding, or one in a short step.
    """
    x, lengths = trial.samples[1].x, _lengths(trial)
    r = _on_grid(trial, _spans(trial) * torch.rand(len(x), trial.dims, dtype=torch.float64), COARSE)
    if trial.encoding.translation_invariant:
        step = _on_grid(trial, 0.375 * _spans(trial), COARSE)
        original, moved = (trial.logits(x[None], Where(positions[None])) for positions in (r, r + step))
        return difference(moved, original) / CLOSE[torch.float64]
    r[0] = 0
    before = r.clone()
    before[0] = lengths - SHORT * (lengths > 0)
    return difference(_results(trial, x, before), _results(trial, x, r)) / SMALL


def _results(trial: Trial, x: Tensor, r: Tensor) -> Tensor:
    where = Where(r[None])
    return torch.cat([trial(x[None], where).flatten(), trial.logits(x[None], where).flatten()])
