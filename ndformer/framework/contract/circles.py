"""The promise about circular axes: a whole turn changes nothing, and neither does the place of the seam."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.contract.promise import NotApplicable, Worst, difference, dtype_name, promise
from ndformer.framework.contract.trial import Trial
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.tokens import Where

PERIOD = 8.0
TURNS = {torch.float64: 2, torch.float32: 100}  # of tokens, at most
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-5}
SHORT, SMALL = 1e-8, 1e-4  # a step across the seam, and the largest change it may make


@promise("whole turns on circles")
def circles(tried: Sequence[Trial]) -> str:
    if not tried[0].encoding.circular_axes or any(tried[0].encoding.periods):
        raise NotApplicable("periods are given" if tried[0].encoding.circular_axes else "it refuses `periods`")
    worst, seam = {dtype: Worst() for dtype in TURNS}, Worst()
    for trial in (Trial(_on_circles(t), t.dims) for t in tried):
        for dtype, turns in TURNS.items():
            model = trial.cast(dtype)
            x = model.samples[1].x.to(dtype)
            # binary fractions, which stay exact 100 turns away; integers if the encoding rounds
            unit = 64 if trial.encoding.float_positions else 1
            r = (PERIOD * torch.rand(len(x), trial.dims, dtype=torch.float64) * unit).round() / unit
            away = r + PERIOD * torch.randint(-turns, turns + 1, r.shape)
            here, there = (_results(model, x, positions.to(dtype)) for positions in (r, away))
            worst[dtype].compare(there, here, f"{dtype_name(dtype)}, {trial.dims}-D")
        seam.update(_seam_change(trial), f"{trial.dims}-D")
    for dtype, found in worst.items():
        found.require(
            f"circular_axes is declared, but whole turns change outputs by {found}: use the positions that "
            "tables() gets, which are wrapped, and not where.positions",
            limit=CLOSE[dtype],
        )
    seam.require(
        f"circular_axes is declared, but outputs depend on which end of the period is at 0 ({seam.case}): take "
        "differences the short way round (self.on_axes(layer) in layer()), and use round_to_turns() for "
        "frequencies, or set circular_axes = False",
        limit=1,
    )
    return f"{TURNS[torch.float32]} turns change nothing ({worst[torch.float32].about})"


def _on_circles(trial: Trial) -> Any:
    """Return a constructor of the encoding on circles along all axes."""

    def make(**place: Any) -> PositionEncoding:
        encoding = trial.make(**place)
        encoding.periods = tuple(PERIOD for _ in range(place["position_dims"]))
        return encoding

    return make


def _seam_change(trial: Trial) -> float:
    """Return the change of the results, relative to the allowed one, when tokens cross the seam.

    They cross it all together, which changes no logit of a translation invariant encoding, or one in a short step.
    """
    x, P = trial.samples[1].x, trial.dims
    r = (PERIOD * torch.rand(len(x), P, dtype=torch.float64)).round() + 0.25 * trial.encoding.float_positions
    if trial.encoding.translation_invariant:
        here, there = (trial.logits(x[None], Where(positions[None])) for positions in (r, r + 3))
        return difference(there, here) / CLOSE[torch.float64]
    r[0] = 0
    before = r.clone()
    before[0] = PERIOD - SHORT
    return difference(_results(trial, x, before), _results(trial, x, r)) / SMALL


def _results(trial: Trial, x: Tensor, r: Tensor) -> Tensor:
    where = Where(r[None])
    return torch.cat([trial(x[None], where).flatten(), trial.logits(x[None], where).flatten()])
