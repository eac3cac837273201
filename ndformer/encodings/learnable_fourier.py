"""LearnableFourier: Fourier features of the position with learned frequencies and a small network (Li 2021)."""

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.embedding import AbsoluteEncoding, mask_unplaced
from ndformer.framework.encoding.coverage import Coverage, Span, frequency_vectors
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Dims, Positive, Width
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class LearnableFourier(AbsoluteEncoding):
    """Learnable Fourier features (Li 2021): GELU([cos, sin](r Wr') / sqrt(F) W1 + b1) W2 + b2, added to the tokens.

    `gamma` is the distance in scaled units over which embeddings are similar before training: frequencies start with a
    standard deviation of 1 / gamma. `features` F is the number of cosines and sines (None: dim), `hidden` the width of
    the network. With `groups` the axes form that many groups of equal size, as the corners of a box do; each is encoded
    by the same weights into its share of the channels. `pretrained` is the path of a checkpoint, from ndformer or
    torch.save, that contains the weights of such an encoding.

    Weights, shared by all layers: `frequencies` Wr (F / 2, axes of a group), `first` and `last`, the linear layers.

    Paper: arXiv:2106.02795.
    """

    line_reason = "its learned frequencies do not stay whole turns"
    no_weight_decay = ("frequencies",)

    def __init__(
        self,
        *args: Any,
        gamma: Positive = 10.0,
        features: Width | None = None,
        hidden: Width = 32,
        groups: Dims = 1,
        pretrained: Path | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        dims, dim = self.position_dims, self.dim
        features = dim // 2 * 2 if features is None else features
        if features % 2:
            raise ValueError(f"features must be even, half cosines and half sines, got {features}")
        if dims % groups or dim % groups:
            raise ValueError(f"groups must divide the {dims} position dimensions and the width {dim}, got {groups}")
        self.groups, self.gamma = groups, gamma
        self.frequencies = nn.Parameter(torch.randn(features // 2, dims // groups) / gamma)
        self.first, self.last = nn.Linear(features, hidden), nn.Linear(hidden, dim // groups)
        for layer in (self.first, self.last):  # torch's default biases are larger than the differences of positions
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        if pretrained is not None:
            self.load_state_dict(_load_weights(Path(pretrained), self.state_dict()))

    @property
    def initial_radius(self) -> float:
        return 3 * self.gamma  # embeddings of tokens farther apart are not similar

    def covers(self, span: Span) -> list[Coverage]:
        table = torch.block_diag(*[self.frequencies] * self.groups)  # (groups features, P)
        return frequency_vectors(table, span, lambda longest: f"gamma={max(span.extent) / 3:.3g}")

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        r = positions.unflatten(-1, (self.groups, -1)).double()  # (B, N, G, M): float32 is inexact far from 0
        angles = r @ self.frequencies.double().T
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1) / math.sqrt(2 * angles.shape[-1])
        hidden = F.gelu(_linear(self.first, waves.to(where.positions.dtype)))
        embedding = _linear(self.last, hidden).flatten(-2)  # (B, N, dim)
        return mask_unplaced(embedding, where)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply a linear layer in the precision of x."""
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def _load_weights(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint under the names of `expected`, after one common prefix."""
    tensors = load_tensors(path)
    prefixes = [name.removesuffix("frequencies") for name in tensors if name.rpartition(".")[2] == "frequencies"]
    prefixes = [prefix for prefix in prefixes if all(prefix + name in tensors for name in expected)]
    if len(prefixes) != 1:
        raise DataError(
            f"{path} holds {len(prefixes)} sets of weights of a LearnableFourier: give a checkpoint with one, of a "
            "model with that encoding or of the encoding alone"
        )
    weights = {name: tensors[prefixes[0] + name] for name in expected}
    for name, value in expected.items():
        if weights[name].shape != value.shape:
            raise DataError(
                f"{path} has {name} of shape {tuple(weights[name].shape)}, and the encoding takes {tuple(value.shape)}"
                ": give it the features, hidden, groups, width and position dimensions of the model it is from"
            )
    return weights
