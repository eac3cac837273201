"""A head that also predicts moments of charges at the positions of tokens: vectors, tensors and their norms."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.framework.data.components import COLUMNS, DIAGONAL, MATRIX, ROWS, TENSOR, VECTOR, groups
from ndformer.framework.data.regression import SAME
from ndformer.framework.errors import DataError
from ndformer.framework.heads.regressor import Regressor
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet, Where

Readout = Literal["sum", "mean", "class", "dipole", "anisotropy", "extent", "vector", "tensor"]
NORMS = ("dipole", "anisotropy", "extent")
TINY = 1e-20  # below the square of any norm whose gradient matters; that of a norm of 0 is not finite


@HEADS.register_module()
class TensorRegressor(Regressor):
    """A Regressor whose targets may be moments of predicted charges q_i at positions r_i, as in SchNet and PaiNN.

    More values of `readout`, with positions relative to the mean position of the sample's tokens:

    - `dipole`: the norm of the vector sum_i q_i r_i
    - `anisotropy`: sqrt(3/2) times the norm of the traceless tensor A = sum_i q_i (r_i r_i' - |r_i|^2 / 3)
    - `extent`: sum_i q_i |r_i|^2
    - `vector`, for three targets, the components x, y and z: sum_i q_i r_i
    - `tensor`, for six targets, xx, xy, yy, xz, yz and zz of a symmetric tensor: A, plus the identity times a sum over
      tokens, for which there are references per atom as for `sum`

    A constant added to all charges does not change a vector: they are as if their sum was 0. dipoles() and
    anisotropies() return the vectors and the tensors of the first two. Vectors and tensors rotate with the sample, and
    translations do not change them, if the encoding is invariant to both. Moments are divided by their standard
    deviation, one for all components, and no mean is subtracted but that of the diagonal of tensors.
    """

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        readout: Readout | Sequence[Readout] = "dipole",
        **kwargs: Any,
    ) -> None:
        super().__init__(dim, classes, cast(Any, readout), **kwargs)
        self.moments = [t for t, name in enumerate(self.readouts) if name in NORMS]
        self.vectors = _groups(self.readouts, "vector", VECTOR)
        self.tensors = _groups(self.readouts, "tensor", TENSOR)
        with torch.no_grad():  # a norm of 0 has no direction in which to grow
            for t in self.moments:
                nn.init.normal_(self.linear.weight[t], std=0.02)

    def fit_targets(self, names: Sequence[str], targets: np.ndarray, composition: np.ndarray | None) -> None:
        named = groups(names)
        for group in self.vectors + self.tensors:
            if group not in named:
                components = ", ".join(VECTOR if group in self.vectors else TENSOR)
                raise DataError(
                    f"the readout '{self.readouts[group[0]]}' must be for the components {components} of one target, "
                    f"in this order, got {', '.join(names[t] for t in group)}. Name them like 'dipole_x (D)', and set "
                    "the order of targets and readouts",
                    f'--cfg-options "dataset.targets={list(names)}" "model.head.readout={list(self.readouts)}"',
                )
            self._fit_group(group, names[group[0]], targets[:, group], composition)
        super().fit_targets(names, targets, composition)
        self.mean[self.moments] = 0.0

    def fit_target(self, t: int, name: str, values: np.ndarray, composition: np.ndarray | None) -> None:
        if self.readouts[t] not in ("vector", "tensor"):
            super().fit_target(t, name, values, composition)

    def _fit_group(self, group: list[int], name: str, values: np.ndarray, composition: np.ndarray | None) -> None:
        """Set mean and references of a tensor's diagonal, and one spread for all components."""
        known = np.isfinite(values).all(1)
        if not known.any():
            raise DataError(f"no training sample has all components of {name}. Remove it from the targets")
        values, composition = values[known], None if composition is None else composition[known]
        rest = values
        if group in self.tensors:
            first, *others = (group[d] for d in DIAGONAL)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the mean of a traceless tensor is constant, and not all of it
                super().fit_target(first, name, values[:, DIAGONAL].mean(1), composition)
            self.mean[others], self.reference[others] = self.mean[first].clone(), self.reference[first].clone()
            offset = self.mean[group].cpu().numpy()
            if composition is not None:
                offset = offset + composition @ self.reference[group, : composition.shape[1]].cpu().numpy().T
            rest = (values - offset)[:, MATRIX]  # (N, 3, 3)
        spread = float(np.sqrt(np.square(rest).mean()))
        varies = spread > SAME * float(np.abs(values).max())
        if not varies:
            warnings.warn(
                f"the components of {name} are constant in the training data: nothing is left to learn", stacklevel=2
            )
        self.spread[group] = spread if varies else 1.0

    def forward(self, tokens: TokenSet) -> Tensor:
        y = self.per_token(tokens)  # (B, N, T)
        values = list(self.read_out(y, tokens.where).unbind(1))
        r, weight = _centered(tokens.where)
        charges = y.to(r.dtype) * weight[..., None]  # (B, N, T)
        for t in self.moments:
            q = charges[..., t]
            if self.readouts[t] == "extent":
                value = (q * r.square().sum(2)).sum(1)
            elif self.readouts[t] == "dipole":
                value = _norm(_dipole(q, r))
            else:
                value = 1.5**0.5 * _norm(_traceless(q, r))
            values[t] = value.to(y.dtype)
        for group in self.vectors:
            for t, value in zip(group, _dipole(charges[..., group[0]], r).unbind(1), strict=True):
                values[t] = value.to(y.dtype)
        for group in self.tensors:
            mean = charges[..., group[1]].sum(1)  # (B,)
            tensor = _traceless(charges[..., group[0]], r) + mean[:, None, None] * torch.eye(3).to(r)
            for t, value in zip(group, tensor[:, ROWS, COLUMNS].unbind(1), strict=True):
                values[t] = value.to(y.dtype)
        return torch.stack(values, dim=1)

    def dipoles(self, tokens: TokenSet) -> Tensor:
        """Return (B, K, P) the vectors of the K targets with readout `dipole`, in their units."""
        r, weight = _centered(tokens.where)
        chosen = [t for t in self.moments if self.readouts[t] == "dipole"]
        y = self.per_token(tokens).to(r.dtype) * weight[..., None]
        return torch.stack([self.spread[t].to(r.dtype) * _dipole(y[..., t], r) for t in chosen], dim=1)

    def anisotropies(self, tokens: TokenSet) -> Tensor:
        """Return (B, K, P, P) the traceless tensors of the K targets with readout `anisotropy`, in their units."""
        r, weight = _centered(tokens.where)
        chosen = [t for t in self.moments if self.readouts[t] == "anisotropy"]
        y = self.per_token(tokens).to(r.dtype) * weight[..., None]
        return torch.stack([self.spread[t].to(r.dtype) * _traceless(y[..., t], r) for t in chosen], dim=1)


def _groups(readouts: Sequence[str], kind: str, components: Sequence[str]) -> list[list[int]]:
    """Return the targets of each vector or tensor: those with this readout, in their order."""
    chosen = [t for t, name in enumerate(readouts) if name == kind]
    if len(chosen) % len(components):
        raise ValueError(
            f"readout '{kind}' must be for {len(components)} targets each, {', '.join(components)}, got {len(chosen)}"
        )
    return [chosen[i : i + len(components)] for i in range(0, len(chosen), len(components))]


def _centered(where: Where) -> tuple[Tensor, Tensor]:
    """Return the positions (B, N, P) relative to their mean, 0 at tokens without one, and which tokens have one."""
    r, real = where.positions, where.real
    if r.shape[2] != 3:
        raise ValueError(f"TensorRegressor must have positions in 3 dimensions, got {r.shape[2]}. Use Regressor")
    weight = r.new_ones(r.shape[:2]) if real is None else real.to(r.dtype)  # (B, N)
    mean = (r * weight[..., None]).sum(1) / weight.sum(1, keepdim=True).clamp(min=1)  # (B, P)
    return (r - mean[:, None]) * weight[..., None], weight


def _dipole(q: Tensor, r: Tensor) -> Tensor:
    """Return (B, P) sum_i q_i r_i."""
    with without_autocast(r):
        return torch.einsum("bn,bnp->bp", q, r)


def _traceless(q: Tensor, r: Tensor) -> Tensor:
    """Return (B, P, P) sum_i q_i (r_i r_i' - |r_i|^2 / P)."""
    with without_autocast(r):
        tensor = torch.einsum("bn,bni,bnj->bij", q, r, r)
    trace = tensor.diagonal(dim1=1, dim2=2).mean(1)
    return tensor - trace[:, None, None] * torch.eye(r.shape[2], dtype=r.dtype, device=r.device)


def _norm(values: Tensor) -> Tensor:
    """Return (B,) the norm of vectors or tensors, with a gradient of 0 where it is 0."""
    return values.flatten(1).square().sum(1).clamp(min=TINY).sqrt()
