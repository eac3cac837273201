"""Encodings that turn pairs of query and key channels by angles linear in the position.

A turn by w'r_i of q and by w'r_j of k leaves their product a function of w'(r_j - r_i): relative without a bias. One
table of frequencies w, (H or 1, pairs, P), tells the encodings of this file apart; directions.py makes it. Channels
beyond the last pair pass unturned, so any head width works for any number of dimensions.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.normalized import normalized
from ndformer.encodings.rotary_directions import FIXED, RANDOM, alike
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import axis_order, centered, check_choice
from ndformer.framework.encoding.coverage import Coverage, Span, frequency_vectors, ladder_base
from ndformer.framework.kernels.rotation import across, rotate
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Positive, Width
from ndformer.framework.tokens import Where

PRESETS: dict[str, dict[str, Any]] = {  # options that are theirs, where none are given
    "original": {},
    "dinov3": dict(halves=True, normalize="separate", rescale=2.0),
    "vjepa2": dict(base=10000.0),
    "litept": {},
    "utonia": dict(base=10.0, jitter=1.1, rescale=1.2),
    "qwen3vl": dict(directions="interleaved", base=5e6, halves=True),
}


def near(positions: Tensor, where: Where, relative: bool = True) -> Tensor:
    """Positions whose angles have their digits: about the mean, which leaves turns between tokens as they are. But
    tokens without a place act as if at the origin, which then has to stay: there, angles are in float64."""
    if relative and where.placed is None:
        return centered(positions, where).to(where.positions.dtype)
    return positions.double()


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """(B, N, P) and (H or 1, pairs, P) -> (B, H or 1, N, pairs), summed axis by axis in the positions' precision."""
    frequencies = frequencies.to(positions.dtype)
    terms = [r[:, None, :, None] * w[:, None, :] for r, w in zip(positions.unbind(-1), frequencies.unbind(-1))]
    return sum(terms[1:], terms[0])


@ENCODINGS.register_module()
class RotaryND(PositionEncoding):
    """RoPE in any number of dimensions, along any directions: pair f turns by w_f'r.

    `directions`: 'axial' (a share of the pairs for each axis), 'interleaved' (axis by axis in turn, one ladder of
    frequencies), 'mixed' (a random frame per head), 'simplex' (the corners of simplices, turned at random) or 'golden'
    (a direction for each pair, spread evenly). Frequencies are base^(-i/n), the same in all layers; `learned`, they are
    where each layer starts from. `halves`: a pair is channels i and i + half, not 2i and 2i + 1. `axes`: which axis
    takes the place of the first, which of the next. `sections`: the most pairs of each axis, under 'interleaved'.
    `normalize`: places run from -1 to 1 over the tokens of a sample, each axis by itself ('separate') or all by the
    shortest ('min') or longest ('max'), or from 0, the first token, to 1, the last ('ends'), and waves are counted in
    that: nothing is relative across samples of other extents then. Unplaced tokens are not turned, the field's
    practice: they act like tokens at the origin.

    Presets are public code's: 'dinov3', 'litept', 'utonia', 'qwen3vl', and 'vjepa2', which turns the channels of a pair
    by different angles: no rotation, not relative, and what its weights were trained with.
    """

    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        directions: Literal["axial", "interleaved", "mixed", "simplex", "golden"] | None = None,
        learned: bool = False,
        base: Positive | None = None,
        halves: bool | None = None,
        axes: Sequence[Axis] | None = None,
        sections: Sequence[Width] | None = None,
        normalize: Literal["separate", "min", "max", "ends"] | None = None,
        preset: Literal["original", "dinov3", "vjepa2", "litept", "utonia", "qwen3vl"] = "original",
        **rest: Any,
    ) -> None:
        check_choice("preset", preset, list(PRESETS))
        theirs = PRESETS[preset]
        super().__init__(*args, **{k: v for k, v in theirs.items() if k in ("jitter", "rescale")} | rest)
        self.directions: str = directions or theirs.get("directions", "axial")
        check_choice("directions", self.directions, [*FIXED, *RANDOM])
        self.base: float = base or theirs.get("base", 100.0)
        self.halves: bool = theirs.get("halves", False) if halves is None else halves
        self.normalize: str | None = normalize or theirs.get("normalize")
        self.scales_waves = self.normalize is None  # else a larger image has its places between -1 and 1 anyway
        check_choice("normalize", self.normalize, [None, "separate", "min", "max", "ends"])
        self.learned, self.axes = learned, axis_order(axes, self.position_dims, False)
        self.sections = self._checked(sections)
        self.tiled = preset == "vjepa2"
        if self.tiled:
            self.translation_invariant = False
            if self.learned or self.halves or self.directions != "axial":
                raise ValueError("preset='vjepa2' is axial, with pairs of neighbours and frequencies that stay")
        if preset == "litept" and self.head_dim % (2 * self.position_dims):
            raise ValueError(
                f"litept turns all channels: a head of {self.head_dim} does not divide by {2 * self.position_dims}, "
                f"two for each axis; preset='original', base=100 leaves the rest unturned"
            )
        together = 2 * alike(self.directions, self.position_dims)
        self.steps = self.turned // together  # of a ladder of frequencies
        if self.steps == 0:
            raise ValueError(
                f"{type(self).__name__} has channels for each direction: a head of {self.head_dim} is too narrow for "
                f"{self.position_dims} dimensions, which take {together * self.head_dim // self.turned}. PaPE and "
                "ALiBi fit all"
            )
        if self.directions in RANDOM and not learned:
            self.drawn = nn.Buffer(self.frequencies())

    @property
    def turned(self) -> int:
        """How many channels of a head there are to turn."""
        return self.head_dim

    def _checked(self, sections: Sequence[int] | None) -> Sequence[int] | None:
        if sections is None:
            return None
        if self.directions != "interleaved" or len(sections) != self.position_dims:
            raise ValueError(
                f"sections are the most pairs of each of the {self.position_dims} axes, under "
                f"directions='interleaved', got {sections} under '{self.directions}'"
            )
        return sections

    @property
    def initial_radius(self) -> float | None:
        if self.normalize:
            return None
        return math.pi * self.base ** (1 - 1 / self.steps)  # half of the longest wave

    def covers(self, span: Span) -> list[Coverage]:
        whole = 1.0 if self.normalize is None else 2 * math.pi  # turns of a unit
        table = self.drawn if self.directions in RANDOM and not self.learned else self.frequencies()
        return frequency_vectors(
            table * whole, span, lambda longest: f"base={ladder_base(longest * whole, self.steps):.3g}"
        )

    @property
    def sizes(self) -> tuple[float, float]:
        """Of the fastest and the slowest wave, untrained."""
        return 1.0, self.base ** (1 / self.steps - 1)

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """(H or 1, pairs, P); drawn anew, where directions are random."""
        place = self.heads, self.turned, self.position_dims, self.base
        if self.directions in RANDOM:
            return RANDOM[self.directions](*place)
        more = {} if self.sections is None else dict(sections=self.sections)
        table = FIXED[self.directions](*place, device, **more)
        return table if self.axes == tuple(range(self.position_dims)) else table[..., _inverse(self.axes)]

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        return positions if self.normalize is None else normalized(positions, where, self.normalize)

    def tables(self, positions: Tensor, where: Where) -> Any:
        near = self.near(positions, where)
        if self.normalize is not None:
            near = near * (2 * math.pi)
        change, gain = None, 1.0  # at the sizes of training
        if self.scaling is not None and self.scales_waves and self.scaling.kind != "linear":
            change = partial(self.scaling.frequencies, sizes=self.sizes, unit=self.position_scale)
            gain = self.scaling.gain
        if self.learned:
            return ToTurn(near, change, gain)
        table = self.drawn if self.directions in RANDOM else self.frequencies(positions.device)
        own = where.positions.dtype
        turn = angles(near, table if change is None else change(table))
        return Turns(turn.cos().to(own), turn.sin().to(own), gain)

    def near(self, positions: Tensor, where: Where) -> Tensor:
        return near(positions, where, self.translation_invariant)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        if self.learned:
            return LearnedTurns(self.frequencies().to(torch.get_default_dtype()), self.halves, inverse=False)
        return _Turned(self.halves, self.steps if self.tiled else None)


class Turns(NamedTuple):
    """What fixed frequencies have layers share."""

    cos: Tensor  # (B, H or 1, N, pairs)
    sin: Tensor
    gain: float = 1.0  # of logits


class ToTurn(NamedTuple):
    """What learned ones have: each layer turns by its own."""

    positions: Tensor  # (B, N, P)
    change: Callable[[Tensor], Tensor] | None = None  # of frequencies (H or 1, pairs, P)
    gain: float = 1.0


class _Turned(LayerEncoding):
    """Turns by a table shared by all layers."""

    def __init__(self, halves: bool, tiled: int | None = None) -> None:
        """`tiled`: angles of an axis, where they are laid out one after the other, and then again."""
        super().__init__()
        self.halves, self.tiled = halves, tiled

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Turns) -> tuple[Tensor, Tensor]:
        cos, sin, gain = state
        q = q if gain == 1 else q * gain
        if self.tiled is not None:
            return _turned_apart(q, cos, sin, self.tiled), _turned_apart(k, cos, sin, self.tiled)
        width = q.shape[-1]
        spare = max(0, 2 * cos.shape[-1] - width)  # the padding of pape_repo
        q, k = (rotate(F.pad(t, (0, spare)), cos, sin, self.halves)[..., :width] for t in (q, k))
        return q, k


def _turned_apart(x: Tensor, cos: Tensor, sin: Tensor, steps: int) -> Tensor:
    """V-JEPA 2's: angles of an axis are tiled, and the pairs are neighbours."""
    cos, sin = (t.unflatten(-1, (-1, 1, steps)).expand(*t.shape[:-1], -1, 2, -1).flatten(-3) for t in (cos, sin))
    turned, rest = x[..., : cos.shape[-1]].to(cos.dtype), x[..., cos.shape[-1] :]
    return torch.cat([(turned * cos + across(turned) * sin).to(x.dtype), rest], dim=-1)


class LearnedTurns(LayerEncoding):
    no_weight_decay = ("frequencies",)

    def __init__(self, frequencies: Tensor, halves: bool, inverse: bool) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(frequencies)  # (H or 1, pairs, P); wavelengths where `inverse`
        self.halves, self.inverse = halves, inverse

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: ToTurn) -> tuple[Tensor, Tensor]:
        exact = self.frequencies.to(torch.promote_types(self.frequencies.dtype, torch.float32))
        table = 1 / exact if self.inverse else exact
        turn = angles(state.positions, table if state.change is None else state.change(table))
        cos, sin = turn.cos().to(exact.dtype), turn.sin().to(exact.dtype)  # (B, H or 1, N, pairs)
        q = q if state.gain == 1 else q * state.gain
        return rotate(q, cos, sin, self.halves), rotate(k, cos, sin, self.halves)


def _inverse(axes: Sequence[int]) -> list[int]:
    return sorted(range(len(axes)), key=axes.__getitem__)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(RotaryND)
