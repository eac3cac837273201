"""SaPE2: how unlike two tokens are in what they make of the lines of the grid on which they stand (Chen 2025).

One pass per axis, over its lines: tokens that share all other coordinates. Equations by their numbers in the paper;
what it leaves open is in docs/encodings.md.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.cope import Counts, interpolated
from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.encoding.coverage import Coverage, Span, sums
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

Grid = tuple[int, ...]


@ENCODINGS.register_module()
class SaPE2(PositionEncoding):
    """sign / sqrt(h) times the sum over axes of |S_i - S_j|, S_i what token i makes of its line along the axis.

    S_i has a value for each token m of the line: z_i . e[p_im], p_im the sum of gates sigmoid(q_i . k_l) over m and the
    tokens behind it. z_i is the key (`mode='k'`, the paper's best), the query ('q'), or each once ('qk'). e, one table
    per axis, has an entry for each whole p up to `npos_max` - 1, where p ends; what is between two is interpolated.
    `sign=-1`: unlike tokens attend to each other less. `preset='code'` divides what a gate is of by sqrt(h).
    """

    needs_grid = True
    instead = "CoPE(two_sided=True), PaPE or ALiBi"
    content_dependent = True
    rotation_invariant = False

    def __init__(
        self,
        *args: Any,
        mode: Literal["k", "q", "qk"] = "k",
        npos_max: Counts = 64,
        sign: Literal[1, -1] = 1,
        preset: Literal["paper", "code"] = "paper",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        check_choice("mode", mode, ("k", "q", "qk"))
        check_choice("sign", sign, (1, -1))
        check_choice("preset", preset, ("paper", "code"))
        self.mode, self.npos_max, self.sign = mode, npos_max, sign
        self.gate = 1.0 if preset == "paper" else self.head_dim**-0.5

    def covers(self, span: Span) -> list[Coverage]:
        return [sums(f"sums of gates along axis {p}", self.npos_max, n) for p, n in enumerate(span.cells)]

    def tables(self, positions: Tensor, where: Where) -> Grid | None:
        return where.grid

    def layer(self, index: int, depth: int) -> LayerEncoding:
        shape = self.position_dims, self.head_dim, self.npos_max
        return _Describing(shape, self.mode, self.gate, self.sign * self.head_dim**-0.5)


class _Describing(LayerEncoding):
    no_weight_decay = ("tables",)

    def __init__(self, shape: tuple[int, int, int], mode: str, gate: float, scale: float) -> None:
        super().__init__()
        self.mode, self.gate, self.scale = mode, gate, scale
        self.tables = nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.02))  # zeros would never move

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Grid) -> Bias:
        exact = torch.promote_types(q.dtype, torch.float32)
        before = q.shape[2] - math.prod(state)
        q, k = (t[:, :, before:].to(exact).unflatten(2, state) for t in (q, k))  # (B, H, *grid, h)
        found = []
        for axis, table in enumerate(self.tables.to(exact), start=2):
            lines = dict(q=q.movedim(axis, -2), k=k.movedim(axis, -2))  # (B, H, *others, n, h)
            gates = (lines["q"] * self.gate @ lines["k"].mT).sigmoid()  # eq. 9
            p = gates.flip(-1).cumsum(-1).flip(-1)  # eq. 10
            for name in self.mode:
                values = interpolated(lines[name] @ table, p)  # eq. 13 and 14: (B, H, *others, n, n)
                found.append(values.movedim(-2, axis).flatten(2, -2).contiguous())
        return DescriptorBias(found, before, self.scale)


class DescriptorBias(Bias):
    """scale times the sum of distances between what describes two tokens (eq. 15 and 16); 0 for the `before` first."""

    term = "unlikeness"

    def __init__(self, descriptors: Sequence[Tensor], before: int, scale: float) -> None:
        self.descriptors = list(descriptors)  # each (B, H, N - before, n)
        self.before, self.scale = before, scale

    def rows(self, lo: int, hi: int) -> Tensor:
        queries = slice(max(0, lo - self.before), max(0, hi - self.before))
        distances = [_distances(found[:, :, queries], found) for found in self.descriptors]
        total = sum(distances[1:], distances[0]) * self.scale
        return F.pad(total, (self.before, 0, hi - lo - total.shape[2], 0))


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """(..., n, width), (..., N, width) -> (..., n, N), from differences: squares multiplied out would have no digits
    left for like ones. The gradient at 0 is 0."""
    if torch.compiler.is_exporting():  # ONNX has no cdist
        return torch.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], dim=-1)
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(SaPE2)
