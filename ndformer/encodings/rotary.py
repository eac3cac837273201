"""Rotary position embedding (RoPE) in any number of dimensions, and the parts that all rotary encodings share.

Channel pairs of q and k are rotated by angles linear in the position. Rotating q by w'r_i and k by w'r_j makes their
product a function of w'(r_j - r_i): relative without a bias. The encodings differ by their frequencies w, a tensor
(H or 1, pairs, P) from rotary_directions.py. Channels after the last pair are not rotated, so that any head width works
for any number of dimensions.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.normalized import normalize_positions
from ndformer.encodings.rotary_directions import FIXED, RANDOM, check_directions, pairs_per_frequency
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import axis_order, centered
from ndformer.framework.encoding.circles import round_to_turns
from ndformer.framework.encoding.coverage import Coverage, Span, frequency_vectors, ladder_base
from ndformer.framework.encoding.rotation import rotate, rotate_every_two
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Positive, SomeShare, Width
from ndformer.framework.tokens import Where

PRESETS: dict[str, dict[str, Any]] = {  # defaults of options
    "original": {},
    "dinov3": dict(halves=True, normalize="separate", rescale=2.0),
    "vjepa2": dict(base=10000.0),
    "litept": {},
    "utonia": dict(base=10.0, jitter=1.1, rescale=1.2),
    "qwen3vl": dict(directions="interleaved", base=5e6, halves=True),
    "mrope_interleaved": dict(directions="interleaved", base=5e6, halves=True),
    "mhrope": dict(directions="heads", base=5e6, halves=True),
    "spiral": dict(directions="spiral", base=10000.0, position_scale=1.5),
}
COMMON_OPTIONS = "jitter", "rescale", "position_scale"  # of PositionEncoding


def rotary_positions(positions: Tensor, where: Where, relative: bool = True) -> Tensor:
    """Return positions whose angles are exact: centered, or in float64.

    Centering leaves relative rotations as they are. But tokens without a position act like tokens at the origin, which
    then must not move.
    """
    if relative and where.placed is None:
        return centered(positions, where).to(where.positions.dtype)
    return positions.double()


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Return the angles w'r (B, H or 1, N, pairs) of positions (B, N, P) and frequencies (H or 1, pairs, P).

    They are summed axis by axis in the precision of the positions.
    """
    frequencies = frequencies.to(positions.dtype)
    terms = [r[:, None, :, None] * w[:, None, :] for r, w in zip(positions.unbind(-1), frequencies.unbind(-1))]
    return sum(terms[1:], terms[0])


@ENCODINGS.register_module()
class RotaryND(PositionEncoding):
    """RoPE (Su et al. 2021) in any number of dimensions, along any directions: channel pair f rotates by w_f'r.

    `directions` of the frequency vectors w: 'axial' (an equal number of pairs for each axis), 'interleaved' (axes in
    turn, one sequence of frequencies), 'heads' (each head one axis, with all frequencies), 'spiral' (four directions of
    a plane), 'mixed' (random orthonormal directions per head), 'simplex' (to the corners of
    simplices rotated at random) or 'golden' (a different direction for each pair, spread evenly). Frequencies |w| are
    base^(-i/n), the same in all layers; with `learned` they are the start of each layer's parameters.

    `halves`: a pair is channels i and i + half instead of 2i and 2i + 1. `axes`: the order of the axes, for directions
    that are not random. `sections`, one per axis in that order: for 'interleaved' the largest number of pairs; for
    'heads' the number of heads, of which the first rotate along the first axis, and heads left do not rotate (without
    `sections`, head k of H rotates along axis floor(k P / H)). `channels`: the share of the channels that rotate.
    `normalize`: coordinates run from -1 to 1 over the tokens of a sample, per axis ('separate') or in units of the
    shortest ('min') or longest axis ('max'), or from 0 at the first token to 1 at the last ('ends'), and frequencies
    count whole periods per unit; logits then depend on the extent of the sample. Tokens without a position are not
    rotated, as is common: they act like tokens at the origin.

    Presets have the options of published code: 'dinov3', 'litept', 'utonia', 'qwen3vl', 'mrope_interleaved', 'mhrope',
    'spiral', and 'vjepa2', whose two channels of a pair have different angles: that is no rotation and not relative,
    but its weights were trained so.

    Paper: arXiv:2104.09864 (RoPE).
    """

    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        directions: Literal["axial", "interleaved", "heads", "spiral", "mixed", "simplex", "golden"] | None = None,
        learned: bool = False,
        base: Positive | None = None,
        halves: bool | None = None,
        axes: Sequence[Axis] | None = None,
        sections: Sequence[Width] | None = None,
        normalize: Literal["separate", "min", "max", "ends"] | None = None,
        channels: SomeShare = 1.0,
        preset: Literal[
            "original", "dinov3", "vjepa2", "litept", "utonia", "qwen3vl", "mrope_interleaved", "mhrope", "spiral"
        ] = "original",
        **kwargs: Any,
    ) -> None:
        self.channels = channels
        defaults = PRESETS[preset]
        self.circular_axes = not (learned or normalize or defaults.get("normalize"))
        self.line_reason = (
            "learned frequencies do not stay whole turns" if learned else "normalized positions have no period"
        )
        super().__init__(*args, **{k: v for k, v in defaults.items() if k in COMMON_OPTIONS} | kwargs)
        self.directions: str = directions or defaults.get("directions", "axial")
        self.halves: bool = defaults.get("halves", False) if halves is None else halves
        self.normalize: str | None = normalize or defaults.get("normalize")
        self.scales_waves = self.normalize is None  # normalized positions of a larger image are in -1 .. 1 already
        if axes is not None and self.directions in RANDOM:
            raise ValueError(
                f"axes orders fixed directions, got directions='{self.directions}', random ones. Leave it out"
            )
        self.learned, self.axes = learned, axis_order(axes, self.position_dims, False)
        self.sections = self._check_sections(sections)
        self.tiled = preset == "vjepa2"
        if self.tiled:
            self.translation_invariant = False
            if self.learned or self.halves or self.directions != "axial":
                raise ValueError("preset='vjepa2' has axial directions, pairs of neighbors and fixed frequencies")
        if preset == "litept" and self.head_dim % (2 * self.position_dims):
            raise ValueError(
                f"preset='litept' rotates all channels: a head of {self.head_dim} does not divide by "
                f"{2 * self.position_dims}, two for each axis. preset='original', base=100 leaves spare channels as "
                "they are"
            )
        check_directions(self.directions, self.heads, self.rotary_dim, self.position_dims)
        narrowest = 2 * pairs_per_frequency(self.directions, self.position_dims)
        self.steps = self.rotary_dim // narrowest  # the number of different frequencies
        self.base: float = base or defaults.get("base") or self.default_base
        if self.steps == 0 and (self.channels < 1 or self.camera_dim):
            raise ValueError(
                f"{type(self).__name__} has channels for each direction: {self.rotary_dim} of a head's {self.head_dim} "
                f"are left for them, and {narrowest} are needed. Raise `channels`, or lower `cameras`"
            )
        if self.steps == 0:
            raise ValueError(
                f"{type(self).__name__} has channels for each direction: a head of {self.head_dim} is too narrow for "
                f"{self.position_dims} dimensions, which take {narrowest * self.head_dim // max(1, self.rotary_dim)}. "
                "PaPE and ALiBi fit all"
            )
        self.planes = ("halves", self.rotary_dim) if self.halves else "neighbors"
        if self.camera_dim:
            self.planes = id(self)
        if self.directions in RANDOM and not learned:
            self.drawn = nn.Buffer(self.frequencies())

    @property
    def default_base(self) -> float:
        """The base if neither `base` nor the preset has one."""
        return 100.0

    @property
    def rotary_dim(self) -> int:
        """The number of channels of a head that are rotated."""
        return self.selected_dim

    @property
    def selected_dim(self) -> int:
        """The number of channels that `channels` selects; torch.compile cannot call super().rotary_dim instead."""
        available = self.head_dim - self.camera_dim
        return available if self.channels == 1 else 2 * int(available * self.channels / 2)

    @property
    def camera_dim(self) -> int:
        """The number of channels of a head, from the first on, that belong to cameras (GTA)."""
        return 0

    def _check_sections(self, sections: Sequence[int] | None) -> Sequence[int] | None:
        if sections is None:
            return None
        if self.directions not in ("interleaved", "heads") or len(sections) != self.position_dims:
            raise ValueError(
                f"sections are the largest number of pairs of each of the {self.position_dims} axes, with "
                f"directions='interleaved', or the number of heads, with 'heads', got {sections} with "
                f"'{self.directions}'"
            )
        if self.directions == "heads" and (sum(sections) > self.heads or min(sections) < 1):
            raise ValueError(
                f"sections of directions='heads' must be 1 or more heads for each axis, {self.heads} at most in all, "
                f"got {list(sections)}. Lower or raise them"
            )
        return sections

    @property
    def initial_radius(self) -> float | None:
        if self.normalize:
            return None
        return math.pi * self.base ** (1 - 1 / self.steps)  # half of the longest wave

    def covers(self, span: Span) -> list[Coverage]:
        factor = 1.0 if self.normalize is None else 2 * math.pi  # radians per unit
        table = self.drawn if self.directions in RANDOM and not self.learned else self.frequencies()
        table = table[table.any(-1).any(-1)]  # without heads that do not rotate
        return frequency_vectors(
            table * factor, span, lambda longest: f"base={ladder_base(longest * factor, self.steps):.3g}"
        )

    @property
    def frequency_range(self) -> tuple[float, float]:
        """The highest and the lowest frequency before training."""
        return 1.0, self.base ** (1 / self.steps - 1)

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """Return frequency vectors (H or 1, pairs, P), new ones with each call where directions are random."""
        arguments = self.heads, self.rotary_dim, self.position_dims, self.base
        if self.directions in RANDOM:
            return RANDOM[self.directions](*arguments)
        options = {} if self.sections is None else dict(sections=self.sections)
        table = FIXED[self.directions](*arguments, device, **options)
        return table if self.axes == tuple(range(self.position_dims)) else table[..., _inverse(self.axes)]

    def _apply(self, *args: Any, **kwargs: Any) -> "RotaryND":
        """Keep the precision of random frequencies in a model of 16 bits: they are multiplied by positions."""
        frequencies = self._buffers.get("drawn")
        super()._apply(*args, **kwargs)
        if frequencies is not None and self.drawn.dtype in (torch.float16, torch.bfloat16):
            self.drawn = nn.Buffer(frequencies.to(self.drawn.device))
        return self

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        return positions if self.normalize is None else normalize_positions(positions, where, self.normalize)

    def tables(self, positions: Tensor, where: Where) -> Any:
        positions = self.rotary_positions(positions, where)
        if self.normalize is not None:
            positions = positions * (2 * math.pi)
        scale_frequencies, logit_scale = None, 1.0
        scaling = None if self.scaling is None else self.scaling.on_lines(self.periods)
        if scaling is not None and self.scales_waves and scaling.kind != "linear":
            scale_frequencies = partial(scaling.frequencies, sizes=self.frequency_range, unit=self.position_scale)
            logit_scale = scaling.gain if self.has_temperature else 1.0
        if self.learned:
            return RotaryState(positions, scale_frequencies, logit_scale)
        table = self.drawn if self.directions in RANDOM else self.frequencies(positions.device)
        table = table if scale_frequencies is None else scale_frequencies(table)
        angle = angles(positions, round_to_turns(table, self.circle_lengths))
        dtype = where.positions.dtype
        return CosSin(angle.cos().to(dtype), angle.sin().to(dtype), logit_scale)

    def rotary_positions(self, positions: Tensor, where: Where) -> Tensor:
        return rotary_positions(positions, where, self.translation_invariant)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        if self.learned:
            return LearnedRotation(self.frequencies().to(torch.get_default_dtype()), self.halves, inverse=False)
        return _FixedRotation(self.halves, self.steps if self.tiled else None)


class CosSin(NamedTuple):
    """The state of an encoding with fixed frequencies: a table that all layers share."""

    cos: Tensor  # (B, H or 1, N, pairs)
    sin: Tensor
    logit_scale: float = 1.0


class RotaryState(NamedTuple):
    """The state of an encoding with learned frequencies: each layer computes its angles from the positions."""

    positions: Tensor  # (B, N, P)
    scale_frequencies: Callable[[Tensor], Tensor] | None = None  # of (H or 1, pairs, P), for larger inputs
    logit_scale: float = 1.0


class _FixedRotation(LayerEncoding):
    """A rotation of q and k by a table that all layers share."""

    def __init__(self, halves: bool, tiled: int | None = None) -> None:
        """`tiled`: the number of angles per axis in V-JEPA 2's layout, which repeats them as a block."""
        super().__init__()
        self.halves, self.tiled = halves, tiled

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: CosSin) -> tuple[Tensor, Tensor]:
        cos, sin, logit_scale = state
        q = q if logit_scale == 1 else q * logit_scale
        if self.tiled is not None:
            return _rotate_tiled(q, cos, sin, self.tiled), _rotate_tiled(k, cos, sin, self.tiled)
        width = q.shape[-1]
        padding = max(0, 2 * cos.shape[-1] - width)  # only preset='pape_repo' of AxialRoPE has any
        q, k = (rotate(F.pad(t, (0, padding)), cos, sin, self.halves)[..., :width] for t in (q, k))
        return q, k


def _rotate_tiled(x: Tensor, cos: Tensor, sin: Tensor, steps: int) -> Tensor:
    """Rotate as V-JEPA 2 does: angles of an axis are repeated as a block, although pairs are neighboring channels."""
    cos, sin = (t.unflatten(-1, (-1, 1, steps)).expand(*t.shape[:-1], -1, 2, -1).flatten(-3) for t in (cos, sin))
    rotated, unrotated = x[..., : cos.shape[-1]].to(cos.dtype), x[..., cos.shape[-1] :]
    return torch.cat([(rotated * cos + rotate_every_two(rotated) * sin).to(x.dtype), unrotated], dim=-1)


class LearnedRotation(LayerEncoding):
    """A rotation of q and k with frequencies that this layer learns."""

    no_weight_decay = ("frequencies",)

    def __init__(self, frequencies: Tensor, halves: bool, inverse: bool) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(frequencies)  # (H or 1, pairs, P); wavelengths where `inverse`
        self.halves, self.inverse = halves, inverse

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: RotaryState) -> tuple[Tensor, Tensor]:
        exact = self.frequencies.to(torch.promote_types(self.frequencies.dtype, torch.float32))
        table = 1 / exact if self.inverse else exact
        angle = angles(state.positions, table if state.scale_frequencies is None else state.scale_frequencies(table))
        cos, sin = angle.cos().to(exact.dtype), angle.sin().to(exact.dtype)  # (B, H or 1, N, pairs)
        q = q if state.logit_scale == 1 else q * state.logit_scale
        return rotate(q, cos, sin, self.halves), rotate(k, cos, sin, self.halves)


def _inverse(axes: Sequence[int]) -> list[int]:
    return sorted(range(len(axes)), key=axes.__getitem__)
