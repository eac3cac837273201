"""A slow float64 account of each encoding, written from the papers' formulas: what the library is compared with.

Every sample is computed by itself, so padding and packing are right by construction; references/ has the encodings.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.kernels.flex import untraced
from ndformer.framework.tokens import Where
from tests.encodings.references.all import REFERENCES

torch.set_num_threads(1)  # tensors this small are slower on several, many times so where tests run side by side


class Model(nn.Module):
    """One attention layer and its encoding."""

    def __init__(
        self, cfg: Any, dims: int, heads: int = 3, width: int = 16, depth: int = 4, index: int = 1, seed: int = 0
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.cfg, self.dims, self.heads, self.width = cfg, dims, heads, width
        self.depth, self.index, self.dim = depth, index, heads * width
        self.encoding: Any = build_encoding(cfg, dim=self.dim, heads=heads, position_dims=dims, depth=depth)
        self.attention: Any = Attention(self.dim, heads, self.encoding.layer(index, depth), backend="dense")
        for weight in parameters_of(self).values():
            if not weight.any():  # what starts at 0 would not show what it does
                nn.init.normal_(weight)

    def forward(self, x: Tensor, where: Where, backend: str = "dense") -> Tensor:
        self.attention.backend = backend
        state = self.encoding.prepare(where)
        return self.attention(self.embedded(x, state), where, state)

    def logits(self, x: Tensor, where: Where) -> Tensor:
        state = self.encoding.prepare(where)
        return self.attention.logits(self.embedded(x, state), where, state)

    def embedded(self, x: Tensor, state: Any) -> Tensor:
        """As it comes to the layer, past blocks that do nothing."""
        x = self.encoding.embed(x, state)
        for passed in range(self.index + 1):
            x = self.encoding.block_update(x, state, passed)
        return x

    def bias(self, x: Tensor, where: Where) -> Tensor:
        """The logits of an encoding that adds to them, without those of the content."""
        with torch.no_grad():
            self.attention.qkv.weight.zero_()
            self.attention.qkv.bias.zero_()
            return self.logits(x, where)


def reference(model: Model, weights: dict[str, Tensor], x: Tensor, layout: dict[str, Any]) -> Tensor:
    """(B, N, dim): what `model` should give for `layout`, the arguments of a Where; its weights in float64, by name."""
    out = torch.zeros_like(x)
    positions = layout["positions"].double().expand(x.shape[0], -1, -1)
    placed = layout.get("placed", torch.ones(1, x.shape[1], dtype=torch.bool)).expand(x.shape[0], -1)
    kind = REFERENCES[model.cfg["type"]]
    for row, tokens in samples(layout, x.shape[0]):
        sample = kind(model, weights, positions[row, tokens], placed[row, tokens], layout.get("grid"))
        if "cameras" in layout:
            sample.cameras = layout["cameras"].double().expand(x.shape[0], -1, -1, -1)[row, tokens]
        out = out.index_put((torch.tensor(row), torch.tensor(tokens)), sample.layer(x[row, tokens]))
    return out


def weights_of(model: Model) -> dict[str, Tensor]:
    """Copies in float64 that take gradients, under the names that references know."""
    return {name: p.detach().double().requires_grad_() for name, p in parameters_of(model).items()}


def parameters_of(model: Model) -> dict[str, Tensor]:
    shared = {f"shared.{name}": p for name, p in model.encoding.named_parameters()}
    return shared | dict(model.attention.named_parameters())


def samples(layout: dict[str, Any], rows: int) -> Iterator[tuple[int, list[int]]]:
    """The tokens that see each other: (row, their numbers in it)."""
    N = layout["positions"].shape[1]
    valid = layout.get("valid", torch.ones(1, N, dtype=torch.bool)).expand(rows, -1).tolist()
    segment = layout.get("segment", torch.zeros(1, N, dtype=torch.int64)).expand(rows, -1).tolist()
    for row in range(rows):
        for sample in sorted(set(segment[row]) - {-1}):
            tokens = [n for n in range(N) if segment[row][n] == sample and valid[row][n]]
            if tokens:
                yield row, tokens


@pytest.fixture(scope="session", name="reference")
def _reference() -> Callable[..., Tensor]:
    return reference


@pytest.fixture(scope="session")
def make() -> type[Model]:
    return Model


@pytest.fixture(scope="module")
def plain_flex() -> Iterator[None]:
    with untraced():
        yield
