"""The base class of encodings that add a vector of the position to each token, before the first block."""

import torch
from torch import Tensor

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.tokens import Where


class AbsoluteEncoding(PositionEncoding):
    """An encoding whose tables() are embeddings (B or 1, N, dim), which are added to the tokens."""

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        return x + state.to(x.dtype)


def mask_unplaced(table: Tensor, where: Where) -> Tensor:
    """Return embeddings (B or 1, N, dim), 0 for tokens without a position."""
    return table if where.real is None else table.masked_fill(~where.real[..., None], 0)


def sines_and_cosines(angles: Tensor, width: int, interleaved: bool) -> Tensor:
    """Return `width` channels from angles (B, N, ceil(width / 2)): sin and cos in turn, or all sines first."""
    sin, cos = angles.sin(), angles.cos()
    if interleaved:
        return torch.stack([sin, cos], dim=-1).flatten(-2)[..., :width]
    return torch.cat([sin, cos[..., : width // 2]], dim=-1)
