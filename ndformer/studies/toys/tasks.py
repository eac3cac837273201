"""Toy tasks: questions about twelve tokens at random positions, each of which needs one kind of knowledge.

Tokens are words: 0 has no meaning; 1, 2 and 3 are A, B and C. Positions are uniform in a cube of SIDE, in any number of
dimensions, and every sample has the same words. Where a task is about shells around A, meaningless words fill the
shells, so that each shell has the same number of tokens for every answer.
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
    question: str
    outputs: int
    draw: Draw
    min_dims: int = 1
    times: int = 1  # factor of the number of training steps


def direction(generator: Generator, count: int, dims: int) -> Samples:
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, 2])
    return Samples(tokens, positions, (positions[:, 0, 0] < positions[:, 1, 0]).long())


def distance(generator: Generator, count: int, dims: int) -> Samples:
    """Ask whether B is near A. B is on a near or a far shell around A, and a meaningless word is on the other."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, 2])
    inner = torch.rand(count, generator=generator) < 0.5
    radius = torch.rand(count, 2, generator=generator) * 1.5 + torch.where(torch.stack([inner, ~inner], 1), 0.5, 2.5)
    positions[:, 0] = positions[:, 0] * 0.5 + SIDE / 4  # A near the center, so that others can be on any side
    positions[:, 1:3] = positions[:, :1] + radius[..., None] * _unit(generator, count * 2, dims).view(count, 2, dims)
    return Samples(tokens, positions, inner.long())


def counting(generator: Generator, count: int, dims: int) -> Samples:
    """Ask how many of six B are within 2 of A, 0 to 3. Meaningless words make the number of near tokens always 3."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, *[2] * 6])
    inside = torch.randint(4, (count,), generator=generator)
    word_count = TOKENS - 7
    inner = torch.cat([torch.arange(6) < inside[:, None], torch.arange(word_count) < 3 - inside[:, None]], 1)
    radius = torch.rand(inner.shape, generator=generator) * 1.3 + torch.where(inner, 0.5, 2.4)
    positions[:, 0] = positions[:, 0] * 0.25 + SIDE * 3 / 8
    sides = _unit(generator, inner.numel(), dims).view(*inner.shape, dims)
    positions[:, 1:] = positions[:, :1] + radius[..., None] * sides
    return Samples(tokens, positions, inside)


def place(generator: Generator, count: int, dims: int) -> Samples:
    """Ask in which half of the cube A is."""
    tokens, positions = _tokens_and_positions(generator, count, dims, [1])
    return Samples(tokens, positions, (positions[:, 0, 0] < SIDE / 2).long())


def turn(generator: Generator, count: int, dims: int) -> Samples:
    """Ask whether the path A, B, C bends to the left, in the plane of the first two axes.

    The direction from A to B is random, so that the answer needs all three.
    """
    tokens, positions = _tokens_and_positions(generator, count, dims, [1, 2, 3])
    left = torch.rand(count, generator=generator) < 0.5
    angle = torch.rand(count, generator=generator) * 2 * torch.pi  # of A to B
    bend = (0.15 + 0.7 * torch.rand(count, generator=generator)) * torch.pi * torch.where(left, 1.0, -1.0)
    for i, direction in ((1, angle), (2, angle + bend)):
        positions[:, i] = positions[:, i - 1]
        positions[:, i, :2] += 2 * torch.stack([direction.cos(), direction.sin()], 1)
    return Samples(tokens, positions, left.long())


TASKS = {
    "direction": Task("is A before B, along the first axis", 2, direction),
    "distance": Task("are A and B near each other", 2, distance),
    "counting": Task("how many of six B are near A, 0 to 3", 4, counting),
    "place": Task("in which half of the space is A", 2, place),
    "turn": Task("does the path A, B, C bend to the left", 2, turn, min_dims=2, times=2),
}


def moved(samples: Samples, by: float = SIDE) -> Samples:
    """Shift all positions, as in another crop."""
    return samples._replace(positions=samples.positions + by)


def scaled(samples: Samples, by: float = 2.0) -> Samples:
    """Scale all positions about the center."""
    return samples._replace(positions=(samples.positions - SIDE / 2) * by + SIDE / 2)


def rotated(samples: Samples, generator: Generator) -> Samples:
    """Rotate each sample about the center by a random angle, in the plane of the first two axes."""
    angle = torch.rand(len(samples.positions), generator=generator) * 2 * torch.pi
    centered = (samples.positions - SIDE / 2).clone()
    x, y = (centered[..., axis].clone() for axis in (0, 1))
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    centered[..., 0], centered[..., 1] = cos * x - sin * y, sin * x + cos * y
    return samples._replace(positions=centered + SIDE / 2)


def _tokens_and_positions(generator: Generator, count: int, dims: int, words: list[int]) -> tuple[Tensor, Tensor]:
    tokens = torch.zeros(count, TOKENS, dtype=torch.int64)
    tokens[:, : len(words)] = torch.tensor(words)  # attention does not depend on the order of tokens
    return tokens, torch.rand(count, TOKENS, dims, generator=generator) * SIDE


def _unit(generator: Generator, count: int, dims: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, dims, generator=generator), dim=-1)
