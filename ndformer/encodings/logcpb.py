"""LogCPB, log-spaced continuous position bias (Swin V2): a small network of the step between two cells of a grid."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.pointwise import TableBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import ints_per_axis
from ndformer.framework.encoding.coverage import Coverage, Span, longer_steps
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Side, Width
from ndformer.framework.tokens import Where


class GridSteps(NamedTuple):
    cells: Tensor  # (B or 1, N, P), integers
    max_steps: tuple[int, ...]  # the largest step along each axis
    log_steps: Tensor  # (steps, P), all steps of the grid on the logarithmic scale


@ENCODINGS.register_module()
class LogCPB(PositionEncoding):
    """A bias 16 sigmoid(MLP(u)), u = sign(s) log2(1 + |s|) / log2(8), s = 8 (r_i - r_j) / (n - 1) per axis (Swin V2).

    n is the number of cells of the grid along an axis. The network is P - `hidden` - heads, without a bias in the last
    layer. For a grid other than that of training set `trained` to the n of training, one number or one per axis: steps
    of that grid keep their input u, and the logarithm brings longer ones close to it. `cosine` is the published cosine
    attention: q and k are normalized, and a learned factor per head, from 10 and at most 100, multiplies the logits.

    Weights of a layer: `network`, and with `cosine` `scale` (H,).

    Paper: arXiv:2111.09883.
    """

    needs_grid = True
    instead = "RelativeBias, RadialBias or PaPE"
    float_positions = False
    rotation_invariant = False
    line_reason = "its steps are counted in cells of the grid and not in positions, so that it has no short way round"

    def __init__(
        self,
        *args: Any,
        hidden: Width = 512,
        trained: Side | Sequence[Side] | None = None,
        cosine: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.hidden, self.cosine = hidden, cosine
        self.changes_unplaced = self.normalizes = cosine
        self.training_grid = None if trained is None else ints_per_axis(trained, self.position_dims, "trained")

    def covers(self, span: Span) -> list[Coverage]:
        training_grid = self.training_grid or span.cells
        return [longer_steps(p, n, m) for p, (n, m) in enumerate(zip(span.cells, training_grid)) if n > 1]

    def tables(self, positions: Tensor, where: Where) -> GridSteps:
        grid = where.grid
        assert grid is not None
        axes = [torch.arange(n, dtype=positions.dtype, device=positions.device) for n in grid]
        if self.training_grid:
            largest = [max(1, n - 1) for n in self.training_grid]
        else:  # as tensors: a graph cannot compare its sizes; at least 1, as an axis of one cell has no step
            largest = [axis[-1:].clamp(min=1) for axis in axes]
        cells = F.pad(_product(axes), (0, 0, positions.shape[1] - math.prod(grid), 0))  # class tokens come first
        steps = [n - 1 - torch.arange(2 * n - 1, dtype=x.dtype, device=x.device) for x, n in zip(axes, grid)]
        s = _product([8 * step / n for step, n in zip(steps, largest)])  # r_j - r_i ascends
        return GridSteps(cells[None], tuple(n - 1 for n in grid), s.sign() * torch.log2(1 + s.abs()) / math.log2(8))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _LogCPBLayer(self.position_dims, self.hidden, self.heads, self.cosine)


def _product(axes: Sequence[Tensor]) -> Tensor:
    """Return the Cartesian product of the axes, (product of their lengths, P); the last axis varies fastest."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)


class _LogCPBLayer(LayerEncoding):
    no_weight_decay = ("scale",)

    def __init__(self, dims: int, hidden: int, heads: int, cosine: bool) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(dims, hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False))
        self.scale = nn.Parameter(torch.full((heads,), math.log(10))) if cosine else None

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: GridSteps) -> tuple[Tensor, Tensor]:
        if self.scale is None:
            return q, k
        factor = self.scale.clamp(max=math.log(100)).exp()[:, None, None] * math.sqrt(q.shape[-1])
        exact = torch.promote_types(q.dtype, torch.float32)  # rounded once, at the end: logits are large
        return (F.normalize(q.to(exact), dim=-1) * factor).to(q.dtype), F.normalize(k.to(exact), dim=-1).to(k.dtype)

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: GridSteps) -> Bias:
        log_steps = state.log_steps
        dtype = next(self.network.parameters()).dtype  # that of x may be 16 bits, without autocast here
        table = 16 * torch.sigmoid(self.network(log_steps.to(dtype)).to(log_steps.dtype))  # (steps, H)
        # not contiguous(): in an exported graph it refuses an image of one patch
        return TableBias([table.T.clone(memory_format=torch.contiguous_format)], state.max_steps, state.cells)
