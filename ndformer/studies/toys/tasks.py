"""Questions about a dozen tokens at random places, each of which wants one kind of knowledge about positions.

Tokens are words: 0 says nothing, 1, 2 and 3 are A, B and C. Places are uniform in a cube of SIDE, in any number of
dimensions, so that no question can be answered by counting words; where a shell about A is asked for, words of no
weight stand so that as many places of each shell are taken, whatever the answer.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ndformer.studies.small import Samples

TOKENS, SIDE = 12, 8.0
WORDS = 4
Draw = Callable[[Generator, int, int], Samples]  # generator, how many, dimensions


class Task(NamedTuple):
    asks: str
    outputs: int
    draw: Draw
    min_dims: int = 1
    times: int = 1  # as many steps as the others take


def direction(generator: Generator, count: int, dims: int) -> Samples:
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, 2])
    return Samples(tokens, positions, (positions[:, 0, 0] < positions[:, 1, 0]).long())


def distance(generator: Generator, count: int, dims: int) -> Samples:
    """B stands on a shell about A, near or far: what is near or far is the same everywhere. Another word stands on the
    other shell."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, 2])
    near = torch.rand(count, generator=generator) < 0.5
    away = torch.rand(count, 2, generator=generator) * 1.5 + torch.where(torch.stack([near, ~near], 1), 0.5, 2.5)
    positions[:, 0] = positions[:, 0] * 0.5 + SIDE / 4  # A in the middle, so that others may stand on any side
    positions[:, 1:3] = positions[:, :1] + away[..., None] * _unit(generator, count * 2, dims).view(count, 2, dims)
    return Samples(tokens, positions, near.long())


def counting(generator: Generator, count: int, dims: int) -> Samples:
    """How many of six B stand within 2 of A; each of 0 to 3 as often. Of the others so many do that it is always 3."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, *[2] * 6])
    inside = torch.randint(4, (count,), generator=generator)
    others = TOKENS - 7
    near = torch.cat([torch.arange(6) < inside[:, None], torch.arange(others) < 3 - inside[:, None]], 1)
    away = torch.rand(near.shape, generator=generator) * 1.3 + torch.where(near, 0.5, 2.4)
    positions[:, 0] = positions[:, 0] * 0.25 + SIDE * 3 / 8
    sides = _unit(generator, near.numel(), dims).view(*near.shape, dims)
    positions[:, 1:] = positions[:, :1] + away[..., None] * sides
    return Samples(tokens, positions, inside)


def place(generator: Generator, count: int, dims: int) -> Samples:
    """In which half of the cube A stands."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1])
    return Samples(tokens, positions, (positions[:, 0, 0] < SIDE / 2).long())


def turn(generator: Generator, count: int, dims: int) -> Samples:
    """Whether the way from A over B to C bends to the left, in the plane of the first two axes. A to B goes any way,
    so that it takes all three to tell."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, 2, 3])
    left = torch.rand(count, generator=generator) < 0.5
    angle = torch.rand(count, generator=generator) * 2 * torch.pi  # of A to B
    bend = (0.15 + 0.7 * torch.rand(count, generator=generator)) * torch.pi * torch.where(left, 1.0, -1.0)
    for at, way in ((1, angle), (2, angle + bend)):
        positions[:, at] = positions[:, at - 1]
        positions[:, at, :2] += 2 * torch.stack([way.cos(), way.sin()], 1)
    return Samples(tokens, positions, left.long())


TASKS = {
    "direction": Task("is A before B, along the first axis", 2, direction),
    "distance": Task("are A and B near each other", 2, distance),
    "counting": Task("how many of six B are near A, 0 to 3", 4, counting),
    "place": Task("in which half of the space is A", 2, place),
    "turn": Task("does the way A, B, C bend to the left", 2, turn, min_dims=2, times=2),
}


def moved(samples: Samples, by: float = SIDE) -> Samples:
    """Another crop of the world: all places moved."""
    return samples._replace(positions=samples.positions + by)


def scaled(samples: Samples, by: float = 2.0) -> Samples:
    """All places farther apart, about the middle."""
    return samples._replace(positions=(samples.positions - SIDE / 2) * by + SIDE / 2)


def rotated(samples: Samples, generator: Generator) -> Samples:
    """Each scene turned about its middle by an angle of its own, in the plane of the first two axes."""
    angle = torch.rand(len(samples.positions), generator=generator) * 2 * torch.pi
    turned = (samples.positions - SIDE / 2).clone()
    x, y = (turned[..., axis].clone() for axis in (0, 1))
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    turned[..., 0], turned[..., 1] = cos * x - sin * y, sin * x + cos * y
    return samples._replace(positions=turned + SIDE / 2)


def _tokens_and_positions(generator: Generator, count: int, dims: int, words: list[int]) -> tuple[Tensor, Tensor]:
    tokens = torch.zeros(count, TOKENS, dtype=torch.int64)
    tokens[:, : len(words)] = torch.tensor(words)  # attention does not see in which order tokens come
    return tokens, torch.rand(count, TOKENS, dims, generator=generator) * SIDE


def _unit(generator: Generator, count: int, dims: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, dims, generator=generator), dim=-1)
