"""A head that also predicts moments of charges at the positions of tokens: dipole, anisotropy and extent."""

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.heads.regressor import Regressor
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, Width
from ndformer.framework.tokens import TokenSet, Where

Readout = Literal["sum", "mean", "class", "dipole", "anisotropy", "extent"]
TINY = 1e-20  # below the square of any norm whose gradient matters; that of a norm of 0 is not finite


@HEADS.register_module()
class TensorRegressor(Regressor):
    """A Regressor whose targets may be moments of predicted charges q_i at positions r_i, as in SchNet and PaiNN.

    Three more values of `readout`, with positions relative to the mean position of the sample's tokens:

    - `dipole`: the norm of the vector sum_i q_i r_i, with charges whose sum is 0
    - `anisotropy`: sqrt(3/2) times the norm of the traceless tensor A = sum_i q_i (r_i r_i' - |r_i|^2 / 3)
    - `extent`: sum_i q_i |r_i|^2

    dipoles() and anisotropies() return the vectors and the tensors. They rotate with the sample, and translations do
    not change them, if the encoding is invariant to both. A polarizability tensor is its mean, predicted by `sum`,
    times the identity, plus A. These targets are divided by their standard deviation, and no mean is subtracted.
    """

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        readout: Readout | Sequence[Readout] = "dipole",
        **kwargs: Any,
    ) -> None:
        super().__init__(dim, classes, cast(Any, readout), **kwargs)
        self.moments = [t for t, name in enumerate(self.readouts) if name in ("dipole", "anisotropy", "extent")]
        with torch.no_grad():  # a norm of 0 has no direction in which to grow
            for t in self.moments:
                nn.init.normal_(self.linear.weight[t], std=0.02)

    def fit(self, data: Dataset) -> None:
        super().fit(data)
        self.mean[self.moments] = 0.0

    def forward(self, tokens: TokenSet) -> Tensor:
        y = self.per_token(tokens)  # (B, N, T)
        values = list(self.read_out(y, tokens.where).unbind(1))
        r, weight = _centered(tokens.where)
        for t in self.moments:
            q = y[..., t].to(r.dtype) * weight  # (B, N)
            if self.readouts[t] == "extent":
                value = (q * r.square().sum(2)).sum(1)
            elif self.readouts[t] == "dipole":
                value = _norm(_dipole(q, r, weight))
            else:
                value = 1.5**0.5 * _norm(_traceless(q, r))
            values[t] = value.to(y.dtype)
        return torch.stack(values, dim=1)

    def dipoles(self, tokens: TokenSet) -> Tensor:
        """Return (B, K, P) the vectors of the K targets with readout `dipole`, in their units."""
        r, weight = _centered(tokens.where)
        chosen = [t for t in self.moments if self.readouts[t] == "dipole"]
        y = self.per_token(tokens).to(r.dtype) * weight[..., None]
        vectors = [self.spread[t].to(r.dtype) * _dipole(y[..., t], r, weight) for t in chosen]
        return torch.stack(vectors, dim=1)

    def anisotropies(self, tokens: TokenSet) -> Tensor:
        """Return (B, K, P, P) the traceless tensors of the K targets with readout `anisotropy`, in their units."""
        r, weight = _centered(tokens.where)
        chosen = [t for t in self.moments if self.readouts[t] == "anisotropy"]
        y = self.per_token(tokens).to(r.dtype) * weight[..., None]
        return torch.stack([self.spread[t].to(r.dtype) * _traceless(y[..., t], r) for t in chosen], dim=1)


def _centered(where: Where) -> tuple[Tensor, Tensor]:
    """Return the positions (B, N, P) relative to their mean, 0 at tokens without one, and which tokens have one."""
    r, real = where.positions, where.real
    weight = r.new_ones(r.shape[:2]) if real is None else real.to(r.dtype)  # (B, N)
    mean = (r * weight[..., None]).sum(1) / weight.sum(1, keepdim=True).clamp(min=1)  # (B, P)
    return (r - mean[:, None]) * weight[..., None], weight


def _dipole(q: Tensor, r: Tensor, weight: Tensor) -> Tensor:
    """Return (B, P) sum_i q_i r_i, after the mean charge is subtracted so that the total charge is 0."""
    mean = q.sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1)
    return ((q - mean * weight)[..., None] * r).sum(1)


def _traceless(q: Tensor, r: Tensor) -> Tensor:
    """Return (B, P, P) sum_i q_i (r_i r_i' - |r_i|^2 / P)."""
    tensor = torch.einsum("bn,bni,bnj->bij", q, r, r)
    trace = tensor.diagonal(dim1=1, dim2=2).mean(1)
    return tensor - trace[:, None, None] * torch.eye(r.shape[2], dtype=r.dtype, device=r.device)


def _norm(values: Tensor) -> Tensor:
    """Return (B,) the norm of vectors or tensors, with a gradient of 0 where it is 0."""
    return values.flatten(1).square().sum(1).clamp(min=TINY).sqrt()
