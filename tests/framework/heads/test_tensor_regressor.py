"""Moments of charges at positions: against loops, and their equivariance."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ndformer.framework.heads.tensor_regressor import TensorRegressor
from ndformer.framework.tokens import TokenSet, Where
from tests.framework.heads.test_regressor import Table

READOUTS = ["dipole", "anisotropy", "extent", "sum"]


def head() -> TensorRegressor:
    torch.manual_seed(0)
    built = TensorRegressor(8, classes=4, readout=READOUTS).double()  # pyright: ignore[reportArgumentType]
    built.spread.copy_(torch.tensor([2.0, 3.0, 4.0, 1.0]))
    torch.nn.init.normal_(built.linear.weight)
    torch.nn.init.normal_(built.linear.bias)
    return built


def tokens(change: Any = lambda r: r) -> TokenSet:
    generator = torch.Generator().manual_seed(1)
    x, r = (torch.randn(3, 6, n, generator=generator, dtype=torch.float64) for n in (8, 3))
    valid = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    return TokenSet(x, Where(change(3 * r), valid=valid))


def slow(y: Tensor, r: Tensor) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the dipole, the traceless tensor and the extent of one sample, from y (N, T) and r (N, 3)."""
    N = len(y)
    center = sum(r[i].numpy() for i in range(N)) / N
    dipole, tensor, extent = np.zeros(3), np.zeros((3, 3)), 0.0
    for i in range(N):
        place = r[i].numpy() - center
        dipole += (float(y[i, 0]) - sum(float(y[j, 0]) for j in range(N)) / N) * place
        for a in range(3):
            for b in range(3):
                tensor[a, b] += float(y[i, 1]) * (place[a] * place[b] - (a == b) * (place @ place) / 3)
        extent += float(y[i, 2]) * float(place @ place)
    return dipole, tensor, extent


def test_moments_are_those_of_loops():
    built, inputs = head(), tokens()
    values, y = built(inputs), built.per_token(inputs).detach()
    assert inputs.where.valid is not None
    for row in range(3):
        n = int(inputs.where.valid[row].sum())
        dipole, tensor, extent = slow(y[row, :n], inputs.where.positions[row, :n])
        # the definition of the anisotropy by the differences of the diagonal
        (xx, yy, zz), (xy, xz, yz) = np.diag(tensor), tensor[(0, 0, 1), (1, 2, 2)]
        squares = (xx - yy) ** 2 + (yy - zz) ** 2 + (zz - xx) ** 2 + 6 * (xy**2 + xz**2 + yz**2)
        expected = [np.linalg.norm(dipole), np.sqrt(squares / 2), extent, float(y[row, :n, 3].sum())]
        assert values[row].tolist() == pytest.approx(expected, rel=1e-9)
        assert built.dipoles(inputs)[row, 0].tolist() == pytest.approx((2 * dipole).tolist(), rel=1e-9)
        assert np.allclose(built.anisotropies(inputs)[row, 0].detach(), 3 * tensor, rtol=1e-9, atol=1e-12)


def test_vectors_and_tensors_rotate_with_the_sample():
    built, inputs = head(), tokens()
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))).Q
    moved = tokens(lambda r: r @ turn.T + 7)
    assert (built(moved) - built(inputs)).abs().max() < 1e-9
    assert (built.dipoles(moved) - built.dipoles(inputs) @ turn.T).abs().max() < 1e-9
    assert (built.anisotropies(moved) - turn @ built.anisotropies(inputs) @ turn.T).abs().max() < 1e-9
    assert (built.dipoles(moved) - built.dipoles(inputs)).abs().max() > 0.1


def test_single_tokens_have_no_dipole_and_finite_gradients():
    built = head()
    output = built(TokenSet(torch.randn(2, 1, 8, dtype=torch.float64), Where(torch.randn(2, 1, 3).double())))
    assert output[:, :3].abs().max() < 1e-6
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())


def test_norms_are_scaled_without_a_mean():
    built = TensorRegressor(8, classes=2, readout=["dipole", "mean"])
    built.fit(Table())
    first, second = Table().targets.T
    assert built.mean.tolist() == pytest.approx([0, np.nanmean(second)])
    assert built.spread.tolist() == pytest.approx([first.std(), np.nanstd(second)])
    assert built.linear.weight[0].abs().max() > 0  # else a norm of 0 would stay 0
    assert not built.linear.weight[1].any()
