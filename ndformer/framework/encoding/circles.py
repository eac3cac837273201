"""Circular axes: coordinates such as an azimuth, a longitude or an hour, which return to the same place after a period.

encoding = dict(type='AxialRoPE', periods=[None, 360])      # rows on a line, azimuths in degrees on a circle

Positions are first wrapped into one period. Biases take differences the short way round (CircularBias); frequencies
are rounded to whole turns in a period. So a whole turn of any token changes nothing.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Periods = tuple[float | None, ...]  # of each axis; None: a line


def check_periods(periods: Sequence[float | None] | None, dims: int, name: str, line_reason: str | None) -> Periods:
    """Return the period of each axis, or raise ValueError; `line_reason` says why an encoding accepts only lines."""
    if periods is None:
        return (None,) * dims
    if len(periods) != dims:
        raise ValueError(
            f"periods of {name} must have one entry per position dimension ({dims}), None for a line, got {periods!r}"
        )
    if not any(periods):
        return (None,) * dims
    if line_reason is not None:
        raise ValueError(
            f"{name} has no circular axes, got periods={list(periods)}: {line_reason}. "
            "Use AxialRoPE, RotaryND, GTA, Sincos, ALiBi, RelativeBias or PaPE"
        )
    return tuple(None if period is None else float(period) for period in periods)


def wrap(positions: Tensor, periods: Periods) -> Tensor:
    """Return positions (..., P) from 0 to below the period on circular axes, computed in float64."""
    axes = [
        axis if period is None else (axis.double() - period * (axis.double() / period).floor()).to(axis.dtype)
        for axis, period in zip(positions.unbind(-1), periods)
    ]
    return torch.stack(axes, -1)


def round_to_turns(frequencies: Tensor, lengths: Periods) -> Tensor:
    """Return frequency vectors (..., P) with a whole number of turns, at least one, along circles of these lengths.

    Components of 0 and those on lines stay as they are.
    """
    if not any(lengths):
        return frequencies
    axes = frequencies.double().unbind(-1)
    return torch.stack([_round_axis(w, length) for w, length in zip(axes, lengths)], -1)


def _round_axis(w: Tensor, length: float | None) -> Tensor:
    if length is None:
        return w
    turn = 2 * math.pi / length
    return w.sign() * (w.abs() / turn).round().clamp(min=1) * turn
