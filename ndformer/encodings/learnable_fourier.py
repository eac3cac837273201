"""Learnable Fourier features: positions seen through random waves and a small network, both of which learn."""

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, frequency_vectors
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Dims, Positive, Width
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class LearnableFourier(PositionEncoding):
    """Learnable Fourier features (Li 2021): GELU([cos, sin](r Wr') / sqrt(F) W1 + b1) W2 + b2, added to tokens once.

    `gamma` is how far two places are alike at the start, in scaled units: frequencies are drawn with a standard
    deviation of 1 / gamma. `features` F (None: dim) of the waves, `hidden` of the network. With `groups` the axes fall
    into so many runs of equal length, as the corners of a box do, each encoded by the same weights into its share of
    the channels. `pretrained` is a checkpoint, of ours or of torch.save, that holds the weights of such an encoding.

    Weights: `frequencies` Wr (F / 2, axes of a group), `first` and `last`, the layers of the network.
    """

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"
    no_weight_decay = ("frequencies",)

    def __init__(
        self,
        *args: Any,
        gamma: Positive = 10.0,
        features: Width | None = None,
        hidden: Width = 32,
        groups: Dims = 1,
        pretrained: Path | str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        dims, dim = self.position_dims, self.dim
        features = dim // 2 * 2 if features is None else features
        if features % 2:
            raise ValueError(f"features are half cosines and half sines, an even number, got {features}")
        if dims % groups or dim % groups:
            raise ValueError(f"groups divides the {dims} position dimensions and the width {dim}, got {groups}")
        self.groups, self.gamma = groups, gamma
        self.frequencies = nn.Parameter(torch.randn(features // 2, dims // groups) / gamma)
        self.first, self.last = nn.Linear(features, hidden), nn.Linear(hidden, dim // groups)
        for layer in (self.first, self.last):  # behind torch's own biases, hardly a position would show
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        if pretrained is not None:
            self.load_state_dict(_weights(Path(pretrained), self.state_dict()))

    @property
    def first_reach(self) -> float:
        return 3 * self.gamma  # no two places farther apart are alike

    def covers(self, span: Span) -> list[Coverage]:
        table = torch.block_diag(*[self.frequencies] * self.groups)  # (groups features, P)
        return frequency_vectors(table, span, lambda longest: f"gamma={max(span.extent) / 3:.3g}")

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        r = positions.unflatten(-1, (self.groups, -1)).double()  # (B, N, G, M): far from 0, float32 has no digits
        angles = r @ self.frequencies.double().T
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1) / math.sqrt(2 * angles.shape[-1])
        code = F.gelu(_linear(self.first, waves.to(where.positions.dtype)))
        code = _linear(self.last, code).flatten(-2)  # (B, N, dim)
        return code if where.real is None else code.masked_fill(~where.real[..., None], 0)

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        return x + state.to(x.dtype)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """In the precision of x, whatever that of the weights."""
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def _weights(path: Path, own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of a checkpoint that end in the names of `own`, the same way before each."""
    found = load_tensors(path)
    places = [name.removesuffix("frequencies") for name in found if name.rpartition(".")[2] == "frequencies"]
    fitting = [at for at in places if all(at + name in found for name in own)]
    if len(fitting) != 1:
        raise DataError(
            f"{path} holds {len(fitting)} sets of weights of a LearnableFourier: give a checkpoint with one, of a "
            "model with that encoding or of the encoding alone"
        )
    chosen = {name: found[fitting[0] + name] for name in own}
    for name, value in own.items():
        if chosen[name].shape != value.shape:
            raise DataError(
                f"{path} has {name} of shape {tuple(chosen[name].shape)}, and the encoding takes {tuple(value.shape)}: "
                "give it the features, hidden, groups, width and position dimensions of the model it is from"
            )
    return chosen


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LearnableFourier)
