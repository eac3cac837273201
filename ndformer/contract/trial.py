"""Trials: a small model with the tested encoding, and samples for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention
from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.tokens import Where

Make = Callable[..., PositionEncoding]  # takes dim, heads, position_dims, depth
Layout = tuple[Tensor, Where]  # features (B, N, dim) and where they are

GRIDS = {1: (5,), 2: (2, 3), 3: (2, 2, 2), 4: (1, 2, 2, 2)}


class Sample(NamedTuple):
    """The tokens of a sample."""

    x: Tensor  # (n, dim)
    r: Tensor  # (n, P) in the encoding's unit; where() divides by position_scale
    placed: Tensor  # (n,)
    cameras: Tensor  # (n, 4, 4) rigid; for encodings that use them


class Trial(nn.Module):
    """Two attention layers with the encoding in `dims` dimensions, in float64 unless cast."""

    def __init__(self, make: Make, dims: int) -> None:
        super().__init__()
        self.make, self.dims, self.heads = make, dims, 2 + dims % 2
        self.dim = self.heads * {3: 12, 4: 16}.get(dims, 8)  # PRoPE needs 2 P channels in half of a head
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(dims)
            self.encoding = self.another()
            self.layers = cast(
                list[Attention],
                nn.ModuleList(Attention(self.dim, self.heads, self.encoding.layer(i, 2)) for i in (0, 1)),
            )
            with torch.no_grad():
                for weight in self.parameters():  # parameters initialized to 0 would have no effect
                    weight.add_(0.1 * torch.randn_like(weight))
        self.dtype = torch.float64
        self.double().eval()
        self.samples = self._samples()

    def another(self) -> PositionEncoding:
        return self.make(dim=self.dim, heads=self.heads, position_dims=self.dims, depth=2)

    def cast(self, dtype: torch.dtype) -> Trial:
        other = copy.deepcopy(self).to(dtype)
        other.dtype = dtype
        return other

    def using(self, backend: str) -> Trial:
        for layer in self.layers:
            layer.backend = backend
        return self

    def weights(self) -> dict[str, nn.Parameter]:
        """Return the trainable weights of the encoding by readable names."""
        named = {f"'{name}' of the encoding": weight for name, weight in self.encoding.named_parameters()}
        for i, layer in enumerate(self.layers):
            named |= {f"'{name}' of layer {i}": weight for name, weight in layer.encoding.named_parameters()}
        return {name: weight for name, weight in named.items() if weight.requires_grad}

    def forward(self, x: Tensor, where: Where) -> Tensor:
        return self.with_state(x, where, self.encoding.prepare(where))

    def with_state(self, x: Tensor, where: Where, state: Any) -> Tensor:
        """Return the outputs (B, N, dim) for a prepared state; 0 for padding."""
        x = self.encoding.block_update(self.encoding.embed(x, state), state, 0)
        for i, layer in enumerate(self.layers):
            x = self.encoding.block_update(x + layer(x, where, state), state, i + 1)
        return x if where.valid is None else x.masked_fill(~where.valid[..., None], 0)

    def logits(self, x: Tensor, where: Where) -> Tensor:
        """Return the logits of both layers (2 B, H, N, N); layers get the same tokens, changed by the encoding only."""
        state = self.encoding.prepare(where)
        return torch.cat([layer.logits(tokens, where, state) for layer, tokens in self.layer_inputs(x, state)])

    def each_layer(self, x: Tensor, where: Where) -> Iterator[tuple[Tensor, Tensor, Tensor, Bias | None]]:
        """Yield q, k, v and the bias of each layer; layers get the same tokens, changed by the encoding only."""
        state = self.encoding.prepare(where)
        for layer, tokens in self.layer_inputs(x, state):
            q, k, _, _, v, bias = layer.vectors(tokens, where, state)
            yield q, k, v, bias

    def layer_inputs(self, x: Tensor, state: Any) -> Iterator[tuple[Attention, Tensor]]:
        x = self.encoding.embed(x, state)
        for i, layer in enumerate(self.layers):
            x = self.encoding.block_update(x, state, i)
            yield layer, x

    def sum(self, x: Tensor, where: Where) -> Tensor:
        """Return a weighted sum of the outputs, so that one backward pass reaches every output."""
        y = self(x, where)
        return (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(y)).sum()

    def gradients(self, x: Tensor, where: Where) -> list[Tensor | None]:
        """Return the gradients of sum() with respect to the features and the encoding's weights."""
        x = x.detach().requires_grad_()
        return list(torch.autograd.grad(self.sum(x, where), [x, *self.weights().values()], allow_unused=True))

    # Layouts of the samples

    def alone(self, sample: Sample) -> Layout:
        """Return a sample as a batch of one."""
        placed = None if sample.placed.all() else sample.placed[None]
        grid = GRIDS[self.dims] if self.encoding.needs_grid else None
        return sample.x[None].to(self.dtype), self.where(sample.r[None], sample.cameras[None], None, placed, grid=grid)

    def first(self, r: Tensor | None = None) -> Layout:
        """Return the first sample as a batch of one, at positions `r` if given."""
        return self.alone(self.samples[0] if r is None else self.samples[0]._replace(r=r))

    def padded(self, filling: float = 0.0, shift: float = 0.0) -> Layout:
        """Return one padded row per sample and one row of padding only."""
        B, N = len(self.samples) + 1, max(len(sample.x) for sample in self.samples)
        x = torch.full((B, N, self.dim), filling, dtype=self.dtype)
        r = torch.full((B, N, self.dims), filling, dtype=torch.float64)
        cameras = torch.full((B, N, 4, 4), filling, dtype=torch.float64)
        valid, placed = torch.zeros(2, B, N, dtype=torch.bool)
        for i, sample in enumerate(self.samples):
            n = len(sample.x)
            x[i, :n], r[i, :n] = sample.x.to(self.dtype), sample.r + shift
            valid[i, :n], placed[i, :n], cameras[i, :n] = True, sample.placed, sample.cameras
        return x, self.where(r, cameras, valid, placed)

    def packed(self, filling: float = 0.0) -> Layout:
        """Return all samples packed in one row, with two slots of padding."""
        features, positions, matrices = (torch.full((2, *n), filling) for n in ((self.dim,), (self.dims,), (4, 4)))
        padding = Sample(features, positions, torch.zeros(2).bool(), matrices)
        x, r, placed, cameras = (torch.cat(parts)[None] for parts in zip(*self.samples, padding))
        numbers = [torch.full((len(sample.x),), i) for i, sample in enumerate(self.samples)]
        segment = torch.cat([*numbers, torch.tensor([-1, -1])])[None]
        return x.to(self.dtype), self.where(r, cameras, None, placed, segment)

    def layouts(self) -> dict[str, Layout]:
        if self.encoding.needs_grid:
            return {"a grid": self.first()}
        return {"alone": self.first(), "padded": self.padded(), "packed": self.packed()}

    def where(
        self, r: Tensor, cameras: Tensor | None, *masks: Tensor | None, grid: tuple[int, ...] | None = None
    ) -> Where:
        positions, exact = r / r.new_tensor(self.encoding.factors), torch.promote_types(self.dtype, torch.float32)
        cameras = None if cameras is None or not self.encoding.uses_cameras else cameras.to(exact)
        return Where(positions.to(exact), *masks, grid=grid, cameras=cameras)

    def _samples(self) -> list[Sample]:
        """Return two samples on a grid, or three with random positions within 6 units, integers if required.

        The first sample starts with an unplaced token.
        """
        generator = torch.Generator().manual_seed(self.dims)
        if self.encoding.needs_grid:
            axes = torch.meshgrid(*(torch.arange(n).double() for n in GRIDS[self.dims]), indexing="ij")
            places = [torch.stack(axes, dim=-1).flatten(0, -2)] * 2
        else:
            places = [6 * torch.rand(n, self.dims, generator=generator, dtype=torch.float64) for n in (6, 4, 1)]
            if not self.encoding.float_positions:
                places = [r.round() for r in places]
        places[0] = torch.cat([torch.zeros_like(places[0][:1]), places[0]])
        samples = []
        for i, r in enumerate(places):
            x = torch.randn(len(r), self.dim, generator=generator, dtype=torch.float64)
            placed = torch.arange(len(r)) >= (i == 0)
            samples.append(Sample(x, r, placed, rigid_motions(len(r), generator)))
        return samples


def rigid_motions(count: int, generator: torch.Generator | None = None) -> Tensor:
    """Return random poses (count, 4, 4) within 1 of the origin, in float64."""
    draw, shift = torch.randn(count, 3, 4, generator=generator, dtype=torch.float64).split([3, 1], -1)
    turn, triangle = torch.linalg.qr(draw)
    turn = turn * triangle.diagonal(dim1=1, dim2=2).sign()[:, None]  # otherwise Q is not uniform over rotations
    turn = turn * torch.linalg.det(turn)[:, None, None]
    last = turn.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(count, 1, 4)
    return torch.cat([torch.cat([turn, shift.tanh()], -1), last], 1)
