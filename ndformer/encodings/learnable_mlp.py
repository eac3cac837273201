"""A small network makes a vector of each place, which every layer adds to what q and k are made from, and v is not."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where

State = tuple[Tensor, Tensor | None]  # positions, and which tokens have one


@ENCODINGS.register_module()
class LearnableMLP(PositionEncoding):
    """q = W_q (x + f(r)), k = W_k (x + f(r)), v = W_v x, with f = Linear, norm, ReLU, Linear, in each layer its own
    (3DETR, Misra 2021; DSVT and UniTR, Wang 2023).

    `norm='batch'` is the published one: batch norm over all tokens that have a place, which makes what is learned of
    one sample depend on the others of its batch. Positions should be small numbers about 0: in-window ones, say.
    """

    translation_invariant = False
    rotation_invariant = False

    def __init__(self, *args: Any, norm: Literal["layer", "batch"] = "layer", **rest: Any) -> None:
        super().__init__(*args, **rest)
        check_choice("norm", norm, ("layer", "batch"))
        self.norm = norm
        self.bounded = norm == "layer"  # of places far from 0 it leaves the direction alone
        self.fullgraph = norm == "layer"  # batch norm is of the tokens that have a place alone

    def tables(self, positions: Tensor, where: Where) -> State:
        return positions, where.real

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Added(self.position_dims, self.dim, self.norm == "batch")


class _Added(LayerEncoding):
    def __init__(self, position_dims: int, dim: int, batch: bool) -> None:
        super().__init__()
        self.batch = batch
        norm = nn.BatchNorm1d(dim) if batch else nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(position_dims, dim), norm, nn.ReLU(), nn.Linear(dim, dim))

    def qk_input(self, x: Tensor, state: State) -> Tensor:
        positions, real = state
        with without_autocast(x):
            at = positions.to(next(self.mlp.parameters()).dtype)
            return x + (self._of_real(at, real) if self.batch else self._of_all(at, real)).to(x.dtype)

    def _of_all(self, at: Tensor, real: Tensor | None) -> Tensor:
        code = self.mlp(at)
        return code if real is None else code.masked_fill(~real[..., None], 0)

    def _of_real(self, at: Tensor, real: Tensor | None) -> Tensor:
        if real is None:
            return self.mlp(at.flatten(0, 1)).unflatten(0, at.shape[:2])
        real = real.expand(torch.broadcast_shapes(real.shape, at.shape[:2]))
        code = self.mlp(at.expand(*real.shape, -1)[real])
        return code.new_zeros(*real.shape, code.shape[1]).masked_scatter(real[..., None], code)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LearnableMLP)
