"""What a linear map reads of places from features: linear probes (ridge regression), of our models or of any other.

probe = Probe(tokens=64)
with record_outputs(vit, ["blocks.0", "blocks.11"]) as outputs:    # modules by name, of any model
    vit(images)
probe.add(outputs, where)                                      # (B, N, C) each, and where the tokens are; each batch
probe.read("blocks.11").place.r2                               # how well the place is read, a number per axis

Folds are of samples: no token of a sample that is asked for was learnt from. Padding and tokens without a place are
left out. `shuffled` is the same with the places dealt out anew: what is above 0 there is no reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.system.hooks import forward_hooks
from ndformer.framework.tokens import Where

FOLDS = 10
PENALTY = 1e-4  # on |w|², beside the mean squared error; channels count in units of their spread
MEASURED = 16  # samples whose spacing is looked at


class Reading(NamedTuple):
    """Of tokens that were not learnt from, a number per axis; NaN where all of them stand at one place of it."""

    r2: Tensor  # (P,) 1 - squared error / variance
    error: Tensor  # (P,) the mean absolute error, in steps from a token to the next
    shuffled: Tensor  # (P,) R² with the places dealt out anew


class Readings(NamedTuple):
    """What is read from one layer."""

    channels: int
    tokens: int
    spacing: tuple[float, ...]  # (P,) the step that errors are counted in
    place: Reading  # r_i from x_i
    difference: Reading  # r_j - r_i from x_j - x_i, both of one sample
    both: Reading  # r_j - r_i from [x_i; x_j]


@dataclass
class _Layer:
    x: list[Tensor] = field(default_factory=list)  # (n, C) of each sample
    r: list[Tensor] = field(default_factory=list)  # (n, P) float64
    wheres: list[Where] = field(default_factory=list)


class Probe:
    """Collects features and places, of at most `tokens` tokens of a sample, drawn by the seed; then reads."""

    def __init__(self, tokens: int = 64, seed: int = 0) -> None:
        self.tokens, self.seed = tokens, seed
        self.layers: dict[str, _Layer] = {}

    def add(self, features: Mapping[str, Tensor], where: Where) -> None:
        """Features (B, N, C) by name, of tokens that are `where`. A row, or a run of a packed one, is a sample."""
        for name, x in features.items():
            for own, r in samples(x, where):
                self.take(name, own, r, where)

    def take(self, name: str, x: Tensor, r: Tensor, where: Where) -> None:
        """The tokens of one sample, (n, C) at (n, P); `where` tells how far apart they stand."""
        layer = self.layers.setdefault(name, _Layer())
        drawn = torch.randperm(len(x), generator=self._random(len(layer.x)))[: self.tokens]
        layer.x.append(x.detach().float().cpu()[drawn])
        layer.r.append(r.detach().double().cpu()[drawn])
        if len(layer.wheres) < MEASURED:
            layer.wheres.append(where.to("cpu"))

    def read(self, name: str) -> Readings:
        layer = self.layers[name]
        if len(layer.x) < 2:
            raise DataError(f"probes learn from some samples and ask others, got {len(layer.x)}: give 2 or more")
        x, r = torch.cat(layer.x).double(), torch.cat(layer.r)
        if not bool(x.isfinite().all()):
            raise DataError(f"the features of {name} are not all finite: there is nothing to read from NaN")
        axes = tuple([1.0] * r.shape[1])
        found = Spacing.measure(layer.wheres, axes)
        unit = torch.tensor(axes if found is None else found.unit, dtype=torch.float64)[: r.shape[1]]
        sample = torch.repeat_interleave(torch.tensor([len(one) for one in layer.x]))
        fold = torch.empty(len(layer.x), dtype=torch.int64)
        for number, (_, held) in enumerate(folds(len(layer.x), min(FOLDS, len(layer.x)), self._random(-1))):
            fold[held] = number
        i, j = self._pairs(layer)
        pairs, shift = fold[sample[i]], r[j] - r[i]
        return Readings(
            channels=x.shape[1],
            tokens=len(x),
            spacing=tuple(unit.tolist()),
            place=self._reading(x, r, fold[sample], unit),
            difference=self._reading(x[j] - x[i], shift, pairs, unit),
            both=self._reading(torch.cat([x[i], x[j]], dim=1), shift, pairs, unit),
        )

    def _reading(self, x: Tensor, r: Tensor, fold: Tensor, unit: Tensor) -> Reading:
        if len(fold.unique()) < 2:  # samples of one token make no pairs
            return Reading(*[torch.full_like(unit, torch.nan)] * 3)
        dealt = r[torch.randperm(len(r), generator=self._random(-2))]
        said = cross_val_predict(x, torch.cat([r, dealt], dim=1), fold)  # (n, 2 P): one solution serves both
        own, other = said.chunk(2, dim=1)
        return Reading(r_squared(own, r), (own - r).abs().mean(0) / unit, r_squared(other, dealt))

    def _pairs(self, layer: _Layer) -> tuple[Tensor, Tensor]:
        """Numbers of tokens i and j != i of one sample, as many pairs as it has tokens."""
        random, first, found = self._random(-3), 0, []
        for one in layer.x:
            n = len(one)
            i = torch.arange(n)
            step = torch.randint(1, max(2, n), (n,), generator=random)
            found.append(first + torch.stack([i, (i + step) % n])[:, : n if n > 1 else 0])
            first += n
        i, j = torch.cat(found, dim=1)
        return i, j

    def _random(self, number: int) -> Generator:
        return Generator().manual_seed(1_000_003 * self.seed + number + 10)


@contextmanager
def record_outputs(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """What these modules of any model answered last, by name; of a tuple its first tensor, the field's habit."""
    found: dict[str, Tensor] = {}
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise UnknownNameError(f"the model has no module '{name}'{nearest(name, modules)}")

    def note(name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            found[name] = output if isinstance(output, Tensor) else next(o for o in output if isinstance(o, Tensor))

        return hook

    with forward_hooks({}, {modules[name]: note(name) for name in names}):
        yield found


def samples(x: Tensor, where: Where) -> Iterator[tuple[Tensor, Tensor]]:
    """(n, C) and (n, P) of the tokens that have a place: of each row, or of each run of packed rows."""
    B, N = x.shape[:2]
    if x.dim() != 3 or where.positions.shape[1] != N or where.batch not in (1, B):
        at = tuple(where.positions.shape)
        raise ValueError(f"features are (rows, tokens, channels), for positions {at}, got {tuple(x.shape)}")
    positions = where.positions.expand(B, -1, -1)
    real = torch.ones(B, N, dtype=torch.bool, device=x.device)
    real = real if where.real is None else where.real.expand(B, N)
    runs = torch.zeros_like(real, dtype=torch.int64) if where.segment is None else where.runs().expand(B, N)
    for row in range(B):
        for run in runs[row][real[row]].unique():
            kept = real[row] & (runs[row] == run)
            yield x[row, kept], positions[row, kept]


def cross_val_predict(x: Tensor, y: Tensor, fold: Tensor, penalty: float = PENALTY) -> Tensor:
    """(n, T): what ridge regressions say of y, each of a fold of the rows having learnt from all others.

    The normal equations of a fold's others are those of all rows without its own: one product of all serves all folds.
    """
    spread = x.std(0)
    z = (x - x.mean(0)) / torch.where(spread > 0, spread, 1.0)
    z = torch.cat([z, z.new_ones(len(z), 1)], dim=1)  # the constant, which is not punished
    ridge = torch.eye(z.shape[1], dtype=z.dtype)
    ridge[-1, -1] = 0.0
    numbers = fold.unique().tolist()
    rows = [(fold == number).nonzero().squeeze(1) for number in numbers]
    squares, products = z.T @ z, z.T @ y
    said = torch.empty_like(y)
    for own in rows:
        n = len(x) - len(own)
        left = (squares - z[own].T @ z[own]) / n + penalty * ridge
        said[own] = z[own] @ torch.linalg.solve(left, (products - z[own].T @ y[own]) / n)
    return said


def r_squared(said: Tensor, truth: Tensor) -> Tensor:
    """(T,) of (n, T): 1 where all is said, 0 where no more than the mean is; NaN where there is nothing to tell."""
    spread = (truth - truth.mean(0)).square().sum(0)
    varied = spread > 1e-20 * truth.square().sum(0)  # more than rounding
    return torch.where(varied, 1 - (said - truth).square().sum(0) / spread, torch.nan)


def folds(count: int, number: int, random: Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """(kept, held) of `count` things, for each fold."""
    order = torch.randperm(count, generator=random)
    for held in order.tensor_split(number):
        yield order[~torch.isin(order, held)], held
