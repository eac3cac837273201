"""A head that predicts numbers: one or several targets, standardized by the training data."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.values import Values
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.regression import SAME, target_table
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.processes import shared_divisor
from ndformer.framework.tokens import TokenSet, Where

Readout = Literal["sum", "mean", "class"]
LOSSES = dict(l1=F.l1_loss, l2=F.mse_loss, huber=F.huber_loss)
KINDS = 119  # kinds of parts in a composition: chemical elements by atomic number


@HEADS.register_module()
class Regressor(Head):
    """Two layers on every token; a target is the sum or the mean over the tokens with a position, or the class token's.

    `readout` is one for all targets or one for each. Sums are for extensive targets, which grow with the sample.

    A sample has `targets` (T,), NaN where unknown, which is ignored. They are standardized: the mean of the training
    data is subtracted, and the difference divided by their standard deviation. If samples have a `composition` (K,),
    counts of atoms by element, a sum is first reduced by a reference value for each atom, found by least squares on
    the training data. These numbers are buffers, which fit() sets once and checkpoints contain.

    The loss is `l1`, `l2` or `huber` (with threshold 1), averaged over the standardized targets.
    """

    output_axes = dict(values=("batch", "targets"))
    mean: Tensor  # (T,) float64, of the training data, less references
    spread: Tensor  # (T,) float64, their standard deviation
    reference: Tensor  # (T, KINDS) float64, per atom of each element
    training_parts: Tensor  # (KINDS,) bool, those of the training data
    sums: Tensor  # (T,) bool
    means: Tensor  # (T,) bool

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        readout: Readout | Sequence[Readout] = "mean",
        loss: Literal["l1", "l2", "huber"] = "l1",
    ) -> None:
        super().__init__()
        readouts = [readout] * classes if isinstance(readout, str) else list(readout)
        if len(readouts) != classes:
            raise ValueError(f"readout must be one for all or one for each of {classes} targets, got {len(readouts)}")
        self.classes, self.readouts, self.loss_function = classes, readouts, LOSSES[loss]
        self.reads_class_token = "class" in readouts
        self.hidden, self.linear = nn.Linear(dim, dim), nn.Linear(dim, classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.register_buffer("mean", torch.zeros(classes, dtype=torch.float64))
        self.register_buffer("spread", torch.ones(classes, dtype=torch.float64))
        self.register_buffer("reference", torch.zeros(classes, KINDS, dtype=torch.float64))
        self.register_buffer("training_parts", torch.ones(KINDS, dtype=torch.bool))
        self.register_buffer("sums", torch.tensor([name == "sum" for name in readouts]), persistent=False)
        self.register_buffer("means", torch.tensor([name == "mean" for name in readouts]), persistent=False)

    def fit(self, data: Dataset) -> None:
        """Set mean, spread and references from the training data."""
        targets, composition = target_table(data)
        if targets.ndim != 2 or targets.shape[1] != self.classes:
            raise DataError(f"targets must be {self.classes} numbers for each sample, got {targets.shape[1:]}")
        if composition is not None:
            present = torch.from_numpy(composition.any(0))
            self.training_parts.copy_(F.pad(present, (0, KINDS - len(present))))
        self.fit_targets(data.classes, targets, composition)

    def fit_targets(self, names: Sequence[str], targets: np.ndarray, composition: np.ndarray | None) -> None:
        """Set mean, spread and references of all targets (N, T)."""
        for t, readout in enumerate(self.readouts):
            self.fit_target(t, names[t], targets[:, t], composition if readout == "sum" else None)

    def fit_target(self, t: int, name: str, values: np.ndarray, composition: np.ndarray | None) -> None:
        """Set mean, spread and, with compositions (N, K), references of one target with values (N,)."""
        known = np.isfinite(values)
        if not known.any():
            raise DataError(f"the target {name} is unknown for all training samples. Remove it from the targets")
        values = values[known]
        limit = SAME * float(np.abs(values).max())
        if composition is not None:
            reference = per_part(composition[known], values)  # (K,)
            values = values - composition[known] @ reference
            self.reference[t] = F.pad(torch.from_numpy(reference), (0, KINDS - len(reference)))
        self.mean[t], spread = values.mean(), float(values.std())
        if spread <= limit:  # rounding errors alone, which would be a scale of 1e-15
            why = "explained by the counts of parts" if self.reference[t].any() else "constant"
            warnings.warn(f"the target {name} is {why} in the training data: nothing is left to learn", stacklevel=2)
        self.spread[t] = spread if spread > limit else 1.0

    def forward(self, tokens: TokenSet) -> Tensor:
        """Return (B, T) standardized values."""
        return self.read_out(self.per_token(tokens), tokens.where)

    def per_token(self, tokens: TokenSet) -> Tensor:
        """Return (B, N, T) numbers for each token."""
        x = F.gelu(self.hidden(tokens.features))
        with without_autocast(x):
            y = self.linear(x.to(self.linear.weight.dtype))
        return y.to(torch.promote_types(y.dtype, torch.float32))  # sums over tokens, too: 16 bits are off by percents

    def read_out(self, y: Tensor, where: Where) -> Tensor:
        """Return (B, T) the sum, the mean or the first of the numbers (B, N, T) of tokens."""
        real = where.real
        if real is None:
            total, count = y.sum(1), y.new_full((1, 1), y.shape[1])
        else:
            weight = real[..., None].to(y.dtype)
            total, count = (y * weight).sum(1), weight.sum(1).clamp(min=1)
        return torch.where(self.sums, total, torch.where(self.means, total / count, y[:, 0]))

    def check_exportable(self) -> None:
        if self.reference.any():
            raise DataError(
                "Regressor: expected targets without references per part for a graph, got sums with them, and a graph "
                "does not know the composition. Export .safetensors, which ndformer.load reads"
            )

    def exported(self, output: Tensor) -> dict[str, Tensor]:
        """Return the values in their units; check_exportable() refuses heads with references."""
        return dict(values=output * self.spread.to(output.dtype) + self.mean.to(output.dtype))

    def _offset(self, data_samples: list[dict[str, Any]]) -> Tensor:
        """Return (B, T) or (T,): the mean, plus the references of the composition."""
        if "composition" not in data_samples[0]:
            return self.mean
        counts = torch.from_numpy(np.stack([sample["composition"] for sample in data_samples]).astype(np.float64))
        return self.mean + counts.to(self.mean.device, non_blocking=True) @ self.reference[:, : counts.shape[1]].T

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Tensor:
        """Return (B, T) standardized targets, NaN where unknown."""
        values = torch.from_numpy(np.stack([sample["targets"] for sample in data_samples]).astype(np.float64))
        values = values.to(device, non_blocking=True)
        return ((values - self._offset(data_samples)) / self.spread).float()

    def loss(self, tokens: TokenSet, targets: Tensor) -> dict[str, Tensor]:
        output, known = self(tokens).float(), targets.isfinite()
        losses = self.loss_function(output, torch.where(known, targets, output.detach()), reduction="sum")
        return dict(loss=losses / shared_divisor(known.sum()))

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        self._warn_new_parts(data_samples)
        output = finite(self(tokens), data_samples).double()  # (B, T)
        values, spread = (output * self.spread + self._offset(data_samples)).cpu(), self.spread.cpu()
        return [Values(sample=sample, values=value, spread=spread) for sample, value in zip(data_samples, values)]

    def _warn_new_parts(self, data_samples: list[dict[str, Any]]) -> None:
        """Warn of samples with elements that no training sample had, for which weights are random."""
        known = self.training_parts.cpu().numpy()
        for sample in data_samples:
            counts = np.asarray(sample.get("composition", ()))
            unknown = np.flatnonzero(counts * ~known[: len(counts)])
            if len(unknown):
                warnings.warn(
                    f"{sample.get('path', 'a sample')} has parts that the training data do not have (atomic numbers "
                    f"{', '.join(map(str, unknown))}): its prediction is unreliable",
                    stacklevel=2,
                )


def per_part(composition: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return (K,) the value of each part that, summed over compositions (N, K), fits (N,) values by least squares.

    Parts that no sample has get 0.
    """
    present = composition.any(0)
    reference = np.zeros(composition.shape[1])
    reference[present] = np.linalg.lstsq(composition[:, present].astype(np.float64), values, rcond=None)[0]
    return reference
