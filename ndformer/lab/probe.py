"""Linear probes (ridge regression) that predict token positions from the features of any model.

probe = Probe(tokens=64)
with record_outputs(vit, ["blocks.0", "blocks.11"]) as outputs:    # module names, of any model
    vit(images)
probe.add(outputs, where)                                      # features (B, N, C) and positions; for each batch
probe.read("blocks.11").place.r2                               # R² of the predicted position, per axis

Cross-validation folds are split by sample. Padding and tokens without a position are ignored. `shuffled` is the R² with
permuted positions, a baseline for chance.
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
from ndformer.moved import old_names

FOLDS = 10
PENALTY = 1e-4  # weight of |w|² relative to the mean squared error, for standardized channels
MEASURED = 16  # samples used to measure the token spacing


class Reading(NamedTuple):
    """Cross-validated scores per axis; NaN for an axis on which all tokens have the same position."""

    r2: Tensor  # (P,) 1 - squared error / variance
    error: Tensor  # (P,) mean absolute error, in units of the token spacing
    shuffled: Tensor  # (P,) R² with permuted positions


class Readings(NamedTuple):
    """Probe results of one layer."""

    channels: int
    tokens: int
    spacing: tuple[float, ...]  # (P,) unit of the errors
    place: Reading  # r_i from x_i
    difference: Reading  # r_j - r_i from x_j - x_i, both of one sample
    both: Reading  # r_j - r_i from [x_i; x_j]


@dataclass
class _Layer:
    x: list[Tensor] = field(default_factory=list)  # (n, C) of each sample
    r: list[Tensor] = field(default_factory=list)  # (n, P) float64
    wheres: list[Where] = field(default_factory=list)


class Probe:
    """A linear probe on features of up to `tokens` random tokens per sample."""

    def __init__(self, tokens: int = 64, seed: int = 0) -> None:
        self.tokens, self.seed = tokens, seed
        self.layers: dict[str, _Layer] = {}

    def add(self, features: Mapping[str, Tensor], where: Where) -> None:
        """Add features (B, N, C) by layer name. Each row, or each segment of a packed row, is a sample."""
        for name, x in features.items():
            for tokens, r in samples(x, where):
                self.add_sample(name, tokens, r, where)

    def add_sample(self, name: str, x: Tensor, r: Tensor, where: Where) -> None:
        """Add the tokens of one sample, (n, C) at (n, P); `where` is used to measure their spacing."""
        layer = self.layers.setdefault(name, _Layer())
        chosen = torch.randperm(len(x), generator=self._random(len(layer.x)))[: self.tokens]
        layer.x.append(x.detach().float().cpu()[chosen])
        layer.r.append(r.detach().double().cpu()[chosen])
        if len(layer.wheres) < MEASURED:
            layer.wheres.append(where.to("cpu"))

    def read(self, name: str) -> Readings:
        """Fit and evaluate the probes of one layer."""
        layer = self.layers[name]
        if len(layer.x) < 2:
            raise DataError(f"a probe requires at least 2 samples for cross-validation, got {len(layer.x)}")
        x, r = torch.cat(layer.x).double(), torch.cat(layer.r)
        if not bool(x.isfinite().all()):
            raise DataError(f"features of {name} must be finite, got NaN or inf")
        axes = tuple([1.0] * r.shape[1])
        spacing = Spacing.measure(layer.wheres, axes)
        unit = torch.tensor(axes if spacing is None else spacing.unit, dtype=torch.float64)[: r.shape[1]]
        sample = torch.repeat_interleave(torch.tensor([len(x) for x in layer.x]))
        fold = torch.empty(len(layer.x), dtype=torch.int64)
        for number, (_, test) in enumerate(folds(len(layer.x), min(FOLDS, len(layer.x)), self._random(-1))):
            fold[test] = number
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
        if len(fold.unique()) < 2:  # samples of a single token have no pairs
            return Reading(*[torch.full_like(unit, torch.nan)] * 3)
        permuted = r[torch.randperm(len(r), generator=self._random(-2))]
        predicted = cross_val_predict(x, torch.cat([r, permuted], dim=1), fold)  # (n, 2 P) in one solve
        first, second = predicted.chunk(2, dim=1)
        return Reading(r_squared(first, r), (first - r).abs().mean(0) / unit, r_squared(second, permuted))

    def _pairs(self, layer: _Layer) -> tuple[Tensor, Tensor]:
        """Return indices of token pairs i and j != i within a sample, as many as it has tokens."""
        random, first, pairs = self._random(-3), 0, []
        for n in map(len, layer.x):
            i = torch.arange(n)
            step = torch.randint(1, max(2, n), (n,), generator=random)
            pairs.append(first + torch.stack([i, (i + step) % n])[:, : n if n > 1 else 0])
            first += n
        i, j = torch.cat(pairs, dim=1)
        return i, j

    def _random(self, number: int) -> Generator:
        return Generator().manual_seed(1_000_003 * self.seed + number + 10)


@contextmanager
def record_outputs(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Yield a dict of the latest outputs of the named modules; of a tuple, its first tensor."""
    outputs: dict[str, Tensor] = {}
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise UnknownNameError(f"the model has no module '{name}'{nearest(name, modules)}")

    def record(name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            outputs[name] = output if isinstance(output, Tensor) else next(o for o in output if isinstance(o, Tensor))

        return hook

    with forward_hooks({}, {modules[name]: record(name) for name in names}):
        yield outputs


def samples(x: Tensor, where: Where) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield features (n, C) and positions (n, P) of placed tokens, for each row or packed segment."""
    B, N = x.shape[:2]
    if x.dim() != 3 or where.positions.shape[1] != N or where.batch not in (1, B):
        shape = tuple(where.positions.shape)
        raise ValueError(f"features must be (rows, tokens, channels) for positions {shape}, got {tuple(x.shape)}")
    positions = where.positions.expand(B, -1, -1)
    real = torch.ones(B, N, dtype=torch.bool, device=x.device)
    real = real if where.real is None else where.real.expand(B, N)
    runs = torch.zeros_like(real, dtype=torch.int64) if where.segment is None else where.runs().expand(B, N)
    for row in range(B):
        for run in runs[row][real[row]].unique():
            mask = real[row] & (runs[row] == run)
            yield x[row, mask], positions[row, mask]


def cross_val_predict(x: Tensor, y: Tensor, fold: Tensor, penalty: float = PENALTY) -> Tensor:
    """Return cross-validated predictions (n, T) of y by ridge regression, as scikit-learn's function does.

    The normal equations for a fold are those of all rows minus those of its test rows, so x is multiplied only once.
    """
    spread = x.std(0)
    z = (x - x.mean(0)) / torch.where(spread > 0, spread, 1.0)
    z = torch.cat([z, z.new_ones(len(z), 1)], dim=1)  # the intercept, without penalty
    ridge = torch.eye(z.shape[1], dtype=z.dtype)
    ridge[-1, -1] = 0.0
    numbers = fold.unique().tolist()
    rows = [(fold == number).nonzero().squeeze(1) for number in numbers]
    squares, products = z.T @ z, z.T @ y
    predicted = torch.empty_like(y)
    for test in rows:
        n = len(x) - len(test)
        left = (squares - z[test].T @ z[test]) / n + penalty * ridge
        predicted[test] = z[test] @ torch.linalg.solve(left, (products - z[test].T @ y[test]) / n)
    return predicted


def r_squared(predicted: Tensor, truth: Tensor) -> Tensor:
    """Return the coefficient of determination R² (T,) of predictions (n, T); NaN for constant columns."""
    spread = (truth - truth.mean(0)).square().sum(0)
    varied = spread > 1e-20 * truth.square().sum(0)  # more than rounding error
    return torch.where(varied, 1 - (predicted - truth).square().sum(0) / spread, torch.nan)


def folds(count: int, number: int, random: Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (train, test) indices of `number` random folds."""
    order = torch.randperm(count, generator=random)
    for test in order.tensor_split(number):
        yield order[~torch.isin(order, test)], test


__getattr__ = old_names(__name__, {"outputs_of": "record_outputs"})
