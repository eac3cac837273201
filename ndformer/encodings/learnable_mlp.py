"""LearnableMLP: each layer adds a small network of the position to the input of q and k, but not of v."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where

State = tuple[Tensor, Tensor | None]  # positions, and which tokens have one


@ENCODINGS.register_module()
class LearnableMLP(PositionEncoding):
    """q = W_q (x + f(r)), k = W_k (x + f(r)), v = W_v x, with a network f = Linear, norm, ReLU, Linear in each layer.

    DSVT and UniTR (Wang 2023); 3DETR (Misra 2021) has one network of Fourier features for all layers. `norm='batch'` is
    the published one: batch norm over all tokens that have a position, so that in training the output of a sample
    depends on the other samples of the batch. Positions should be small numbers around 0, such as positions in a
    window.

    Weights of a layer: `mlp`.

    Papers: arXiv:2109.08141 (3DETR), arXiv:2301.06051 (DSVT), arXiv:2308.07732 (UniTR).
    """

    translation_invariant = False
    rotation_invariant = False
    line_reason = "a network of coordinates is not the same at both ends of a period"

    def __init__(self, *args: Any, norm: Literal["layer", "batch"] = "layer", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.norm = norm
        self.bounded = norm == "layer"  # of a position far from 0 it preserves the direction only
        self.fullgraph = norm == "layer"  # batch norm selects the tokens that have a position

    def tables(self, positions: Tensor, where: Where) -> State:
        return positions, where.real

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _LearnableMLPLayer(self.position_dims, self.dim, self.norm == "batch")


class _LearnableMLPLayer(LayerEncoding):
    def __init__(self, position_dims: int, dim: int, batch: bool) -> None:
        super().__init__()
        self.batch = self.batch_statistics = batch
        norm = nn.BatchNorm1d(dim) if batch else nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(position_dims, dim), norm, nn.ReLU(), nn.Linear(dim, dim))

    def qk_input(self, x: Tensor, state: State) -> Tensor:
        positions, real = state
        with without_autocast(x):
            r = positions.to(next(self.mlp.parameters()).dtype)
            return x + (self._embed_real(r, real) if self.batch else self._embed_all(r, real)).to(x.dtype)

    def _embed_all(self, r: Tensor, real: Tensor | None) -> Tensor:
        embedding = self.mlp(r)
        return embedding if real is None else embedding.masked_fill(~real[..., None], 0)

    def _embed_real(self, r: Tensor, real: Tensor | None) -> Tensor:
        """Embed the tokens that have a position, which alone enter the statistics of batch norm."""
        if real is None:
            return self.mlp(r.flatten(0, 1)).unflatten(0, r.shape[:2])
        real = real.expand(torch.broadcast_shapes(real.shape, r.shape[:2]))
        embedding = self.mlp(r.expand(*real.shape, -1)[real])
        return embedding.new_zeros(*real.shape, embedding.shape[1]).masked_scatter(real[..., None], embedding)
