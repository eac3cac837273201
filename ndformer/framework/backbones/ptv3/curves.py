"""Space-filling curves through a voxel grid, which order voxels so that nearby ones are mostly close in space.

z         Morton order (Z-order): the interleaved bits of x, y and z, x highest
hilbert   the Hilbert curve, without jumps (J. Skilling, Programming the Hilbert curve, 2004)
*-trans   the same with x and y exchanged
"""

import torch
from torch import Tensor

from ndformer.framework.errors import DataError, nearest

CURVES = ("z", "z-trans", "hilbert", "hilbert-trans")


def serialize(grid: Tensor, sample: Tensor, bits: int, curve: str) -> Tensor:
    """Return codes (N,) that sort voxels, grid (N, 3) in 0..2^bits - 1, by sample (N,) and then along the curve.

    The lowest 3 bits of a code are the index in a cell of 2 x 2 x 2 voxels, the next 3 that of the cell, and so on.
    """
    check_curve(curve)
    grid = grid.long()
    axes = [grid[:, 1], grid[:, 0], grid[:, 2]] if curve.endswith("-trans") else list(grid.unbind(1))
    if curve.startswith("hilbert"):
        axes = _hilbert(axes, bits)
    x, y, z = (_spread(axis) for axis in axes)
    return sample.long() << 3 * bits | x << 2 | y << 1 | z


def check_curve(curve: str) -> str:
    if curve not in CURVES:
        raise ValueError(f"no curve is called '{curve}'{nearest(curve, CURVES)} Known: {', '.join(CURVES)}")
    return curve


def bits_for(largest: int, samples: int, bits: int | None, unit: float) -> int:
    """Return the bits per axis: `bits`, or as many as the largest voxel index needs. Raise DataError if too few."""
    needed = max(1, largest.bit_length())
    chosen = needed if bits is None else bits
    if needed > chosen:
        raise DataError(
            f"a point cloud spans {largest + 1} voxels of {unit:g} along an axis, but {chosen} bits allow "
            f"{2**chosen}: use a larger grid_size, more bits, or remove outliers"
        )
    if 3 * chosen + (samples - 1).bit_length() > 63:
        raise DataError(
            f"3 x {chosen} bits for a voxel and {(samples - 1).bit_length()} for its sample are more than the 63 of a "
            "code: use a larger grid_size, fewer bits or a smaller batch, or remove outliers"
        )
    return chosen


def _spread(x: Tensor) -> Tensor:
    """Move bit i (of up to 21) to bit 3 i."""
    for shift, mask in (
        (32, 0x001F00000000FFFF),
        (16, 0x001F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        x = (x | x << shift) & mask
    return x


def _hilbert(axes: list[Tensor], bits: int) -> list[Tensor]:
    """Return the Hilbert index of coordinates (N,), its bits distributed in turn over three numbers, highest first."""
    x = [axis.clone() for axis in axes]
    for level in range(bits - 1, 0, -1):  # from the coarsest cells: undo the rotation of each within its parent
        below = (1 << level) - 1
        for axis in x:
            inverted = axis >> level & 1
            swapped = (x[0] ^ axis) & below & (inverted - 1)  # exchange with the first axis, unless it is inverted
            x[0] ^= swapped | (below & -inverted)
            if axis is not x[0]:
                axis ^= swapped
    x[1] ^= x[0]  # Gray code
    x[2] ^= x[1]
    parity = torch.zeros_like(x[2])
    for level in range(bits - 1, 0, -1):
        parity ^= -(x[2] >> level & 1) & ((1 << level) - 1)
    return [axis ^ parity for axis in x]
