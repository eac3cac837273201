"""Space-filling curves against slow implementations of their definitions."""

import pytest
import torch
from torch import Tensor

from ndformer.framework.backbones.ptv3.curves import CURVES, bits_for, serialize
from ndformer.framework.errors import DataError


def cube(bits: int) -> Tensor:
    axis = torch.arange(2**bits)
    return torch.cartesian_prod(axis, axis, axis)


def codes(grid: Tensor, bits: int, curve: str) -> Tensor:
    return serialize(grid, torch.zeros(len(grid), dtype=torch.int64), bits, curve)


def morton(x: int, y: int, z: int, bits: int) -> int:
    return sum((x >> i & 1) << 3 * i + 2 | (y >> i & 1) << 3 * i + 1 | (z >> i & 1) << 3 * i for i in range(bits))


def skilling(x: int, y: int, z: int, bits: int) -> int:
    """Compute AxesToTranspose of Skilling's paper for one point."""
    X = [x, y, z]
    Q = 1 << (bits - 1)
    while Q > 1:
        P = Q - 1
        for i in range(3):
            if X[i] & Q:
                X[0] ^= P
            else:
                t = (X[0] ^ X[i]) & P
                X[0], X[i] = X[0] ^ t, X[i] ^ t
        Q >>= 1
    X[1] ^= X[0]
    X[2] ^= X[1]
    t, Q = 0, 1 << (bits - 1)
    while Q > 1:
        if X[2] & Q:
            t ^= Q - 1
        Q >>= 1
    return morton(X[0] ^ t, X[1] ^ t, X[2] ^ t, bits)


@pytest.mark.parametrize("bits", [1, 2, 7, 16, 21])
def test_codes_are_those_of_the_definitions(bits: int) -> None:
    torch.manual_seed(bits)
    grid = torch.randint(0, 2**bits, (40, 3))
    for curve in CURVES:
        slow = skilling if curve.startswith("hilbert") else morton
        order = [1, 0, 2] if curve.endswith("trans") else [0, 1, 2]
        expected = [slow(x, y, z, bits) for x, y, z in grid[:, order].tolist()]
        assert codes(grid, bits, curve).tolist() == expected, curve


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_meets_every_voxel_once_and_stays_in_its_cells(curve: str) -> None:
    code = codes(cube(3), 3, curve)
    assert code.sort().values.tolist() == list(range(8**3))
    # the codes of a cell's voxels differ in the lowest three bits only: pooling is a shift
    cells = cube(3) >> 1
    for cell in cells.unique(dim=0):
        assert len((code[(cells == cell).all(1)] >> 3).unique()) == 1


def test_samples_follow_each_other() -> None:
    grid, sample = cube(2), torch.arange(64) % 3
    for curve in CURVES:
        order = serialize(grid, sample, 2, curve).argsort()
        assert sample[order].tolist() == sorted(sample.tolist())


def test_bits_are_as_given_or_as_needed() -> None:
    assert bits_for(64, 2, None, 0.02) == 7
    assert bits_for(64, 2, 16, 0.02) == 16
    assert bits_for(63, 2, None, 0.02) == 6  # 0 to 63: all that 6 bits number
    assert bits_for(65535, 2, 16, 0.02) == 16
    assert bits_for(0, 1, None, 0.02) == 1


def test_codes_beyond_63_bits_are_refused() -> None:
    with pytest.raises(DataError, match="spans 65537 voxels of 0.02 along an axis, but 16 bits allow 65536"):
        bits_for(65536, 1, 16, 0.02)
    with pytest.raises(DataError, match="more than the 63"):
        bits_for(2**20, 2, None, 0.02)
    assert bits_for(2**20, 1, None, 0.02) == 21
    with pytest.raises(ValueError, match="did you mean 'hilbert'"):
        codes(cube(1), 1, "hilber")


def test_the_last_bit_of_63_is_usable() -> None:
    grid = torch.full((1, 3), 2**20 - 1)
    code = serialize(grid, torch.tensor([7]), 20, "z")
    assert code.item() == (7 << 60) + 2**60 - 1
