"""Moments of charges at positions: against loops, and their equivariance."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ndformer.framework.data.components import TENSOR
from ndformer.framework.errors import DataError
from ndformer.framework.heads.tensor_regressor import TensorRegressor
from ndformer.framework.tokens import TokenSet, Where
from tests.framework.heads.test_regressor import COUNTS, Table

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


def test_tokens_without_a_position_have_no_charge_and_no_part_in_the_center():
    built, inputs = head(), tokens()
    x, r = inputs.features[:1], inputs.where.positions[:1]  # a sample without padding
    longer = torch.cat([torch.randn(1, 1, 8, dtype=torch.float64), x], 1)  # by a class token
    where = Where(torch.cat([r[:, :1], r], 1), placed=torch.arange(7)[None] > 0)
    for values in (built, built.dipoles, built.anisotropies):
        torch.testing.assert_close(values(TokenSet(longer, where)), values(TokenSet(x, Where(r))))


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


COMPONENTS = ["gap", "d_x (D)", "d_y (D)", "d_z (D)", *(f"alpha {component}" for component in TENSOR)]


class Components(Table):
    """Five samples with a number, a vector and a tensor."""

    classes = COMPONENTS

    def __init__(self) -> None:
        self.targets = np.random.default_rng(0).standard_normal((5, 10)) + [0, 1, 1, 1, 9, 0, 9, 0, 0, 9]
        self.targets[2, 5] = np.nan


def components(**options: Any) -> TensorRegressor:
    readouts: list[Any] = ["mean", *["vector"] * 3, *["tensor"] * 6]
    return TensorRegressor(8, classes=10, readout=readouts, **options)


def test_components_are_those_of_loops_and_rotate_with_the_sample():
    torch.manual_seed(0)
    built, inputs = components().double(), tokens()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    values, y = built(inputs).detach(), built.per_token(inputs).detach()
    assert inputs.where.valid is not None
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))).Q
    turned = built(tokens(lambda r: r @ turn.T + 7)).detach()
    for row in range(3):
        n = int(inputs.where.valid[row].sum())
        # the charges of the vector, and of the tensor, whose second number is for the identity
        vector, tensor, _ = slow(y[row, :n][:, [1, 4, 0]], inputs.where.positions[row, :n])
        tensor += np.eye(3) * float(sum(y[row, i, 5] for i in range(n)))
        assert values[row, 1:4].tolist() == pytest.approx(vector.tolist(), rel=1e-9)
        places = [("xyz".index(a), "xyz".index(b)) for a, b in TENSOR]
        assert values[row, 4:].tolist() == pytest.approx([tensor[place] for place in places], rel=1e-9)
        R = turn.numpy()
        rotated = [*(R @ vector), *((R @ tensor @ R.T)[place] for place in places)]
        assert turned[row, 1:].tolist() == pytest.approx(rotated, rel=1e-9)


def test_a_tensor_is_standardized_by_one_mean_one_spread_and_references_of_its_diagonal():
    built, data = components(), Components()
    built.fit(data)
    known = [0, 1, 3, 4]
    A = COUNTS[:, 1:].astype(float)
    means = data.targets[known][:, [4, 6, 9]].mean(1)
    reference = np.linalg.lstsq(A[known], means, rcond=None)[0]
    mean = (means - A[known] @ reference).mean()
    for t in range(4, 10):
        expected = [0, *reference, 0] if t in (4, 6, 9) else [0, 0, 0, 0]
        assert built.reference[t, :4].tolist() == pytest.approx(expected, rel=1e-9)
        assert float(built.mean[t]) == pytest.approx(mean if t in (4, 6, 9) else 0, abs=1e-9)
    squares = []
    for row in known:
        xx, xy, yy, xz, yz, zz = data.targets[row, 4:]
        matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - np.eye(3) * (A[row] @ reference + mean)
        squares.append((matrix**2).mean())
    assert len(set(built.spread[4:].tolist())) == len(set(built.spread[1:4].tolist())) == 1
    assert float(built.spread[1]) == pytest.approx(np.sqrt((data.targets[:, 1:4] ** 2).mean()))
    assert float(built.spread[4]) == pytest.approx(np.sqrt(np.mean(squares)))  # row 2 lacks xy
    assert not built.mean[1:4].any()


def test_readouts_of_components_name_what_is_missing():
    with pytest.raises(ValueError, match="'vector' must be for 3 targets each, x, y, z, got 2"):
        TensorRegressor(8, classes=2, readout="vector")
    data = Components()
    data.classes = ["gap", *COMPONENTS[2:4], COMPONENTS[1], *COMPONENTS[4:]]
    with pytest.raises(
        DataError, match=r"components x, y, z of one target, in this order, got d_y \(D\), d_z \(D\), d_x \(D\)"
    ):
        components().fit(data)


def test_unknown_and_constant_components_are_judged_together():
    """A molecule in a plane has no z, and each row may lack another component."""
    data = Components()
    data.targets[:, 3] = 0.0
    components().fit(data)  # pytest raises warnings as errors
    for row in range(5):
        data.targets[row, 4 + row] = np.nan
    with pytest.raises(DataError, match="no training sample has all components of alpha xx"):
        components().fit(data)


def test_traceless_tensors_are_no_constants_and_constant_ones_are_named():
    data = Components()
    data.targets[:, 9] = -data.targets[:, 4] - data.targets[:, 6]  # zz = -xx - yy
    components().fit_targets(data.classes, data.targets, None)  # pytest raises warnings as errors
    data.targets[:, 4:] = [1.0, 0, 1, 0, 0, 1]
    with pytest.warns(UserWarning, match="components of alpha xx are constant in the training data"):
        components().fit_targets(data.classes, data.targets, None)


def test_positions_that_are_not_in_space_are_one_sentence():
    flat = TokenSet(torch.randn(2, 4, 8), Where(torch.randn(2, 4, 2)))
    for readout in ("dipole", "vector"):
        with pytest.raises(ValueError, match="positions in 3 dimensions, got 2"):
            TensorRegressor(8, classes=3, readout=readout)(flat)


def test_vectors_rotate_with_the_sample_under_autocast():
    torch.manual_seed(0)
    built = components()
    torch.nn.init.normal_(built.linear.weight)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(2))).Q
    given = [tokens(lambda r, R=R: r @ R.double().T) for R in (torch.eye(3), turn)]
    single = [TokenSet(t.features.float(), Where(t.where.positions.float(), valid=t.where.valid)) for t in given]
    with torch.autocast("cpu", torch.bfloat16):
        plain, turned = (built(t)[:, 1:4] for t in single)
    torch.testing.assert_close(turned, plain @ turn.T, rtol=1e-4, atol=1e-4)
