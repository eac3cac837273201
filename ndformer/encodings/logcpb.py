"""Log-spaced continuous position bias (Swin V2): a small network of the step between two cells of a grid."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.pointwise import TableBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, longer_steps
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Side, Width
from ndformer.framework.tokens import Where


class Steps(NamedTuple):
    cells: Tensor  # (B or 1, N, P), whole numbers
    reach: tuple[int, ...]  # the largest step along each axis
    logs: Tensor  # (steps, P) all there are, log-spaced


@ENCODINGS.register_module()
class LogCPB(PositionEncoding):
    """16 sigmoid(MLP(u)) added to the logits, u = sign(s) log2(1 + |s|) / log2(8), s = 8 (r_i - r_j) / (n - 1) per axis
    of a grid of n cells (Swin V2). The network is P - `hidden` - heads, the last layer without a bias.

    `trained`: n of the grid that it was trained on, where it is another one now: then the network is asked for what it
    has seen, and logarithms bring what it has not near. `cosine`: q and k of length 1, times a learned factor per head,
    from 10 and at most 100, as published.
    """

    needs_grid = True
    instead = "RelativeBias, RadialBias or PaPE"
    float_positions = False
    rotation_invariant = False

    def __init__(
        self,
        *args: Any,
        hidden: Width = 512,
        trained: Side | Sequence[Side] | None = None,
        cosine: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        self.hidden, self.cosine = hidden, cosine
        self.changes_unplaced = cosine
        self.trained = (trained,) * self.position_dims if isinstance(trained, int) else trained
        if self.trained is not None and len(self.trained) != self.position_dims:
            raise ValueError(f"trained is one number or one per axis of the grid ({self.position_dims}), got {trained}")

    def covers(self, span: Span) -> list[Coverage]:
        learnt = self.trained or span.cells
        return [longer_steps(p, n, m) for p, (n, m) in enumerate(zip(span.cells, learnt)) if n > 1]

    def tables(self, positions: Tensor, where: Where) -> Steps:
        grid = where.grid
        assert grid is not None
        counted = [torch.arange(n, dtype=positions.dtype, device=positions.device) for n in grid]
        # one cell: no step, and no division by 0; of the grid a tensor, as in a graph no number may be compared
        spans = [max(1, n - 1) for n in self.trained] if self.trained else [x[-1:].clamp(min=1) for x in counted]
        cells = F.pad(_all(counted), (0, 0, positions.shape[1] - math.prod(grid), 0))  # class tokens come first
        steps = [n - 1 - torch.arange(2 * n - 1, dtype=x.dtype, device=x.device) for x, n in zip(counted, grid)]
        s = _all([8 * own / n for own, n in zip(steps, spans)])  # of r_j - r_i, ascending
        return Steps(cells[None], tuple(n - 1 for n in grid), s.sign() * torch.log2(1 + s.abs()) / math.log2(8))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Network(self.position_dims, self.hidden, self.heads, self.cosine)


def _all(axes: Sequence[Tensor]) -> Tensor:
    """(product of their lengths, P): each with each, the last axis first."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)


class _Network(LayerEncoding):
    no_weight_decay = ("scale",)

    def __init__(self, dims: int, hidden: int, heads: int, cosine: bool) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(dims, hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False))
        self.scale = nn.Parameter(torch.full((heads,), math.log(10))) if cosine else None

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Steps) -> tuple[Tensor, Tensor]:
        if self.scale is None:
            return q, k
        factor = self.scale.clamp(max=math.log(100)).exp()[:, None, None] * math.sqrt(q.shape[-1])
        exact = torch.promote_types(q.dtype, torch.float32)  # rounded once, at the end: logits are ten times others'
        return (F.normalize(q.to(exact), dim=-1) * factor).to(q.dtype), F.normalize(k.to(exact), dim=-1).to(k.dtype)

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Steps) -> Bias:
        table = 16 * torch.sigmoid(self.network(state.logs.to(x.dtype)).to(state.logs.dtype))  # (steps, H)
        return TableBias([table.T.contiguous()], state.reach, state.cells)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LogCPB)
