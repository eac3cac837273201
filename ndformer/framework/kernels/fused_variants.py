"""Tile sizes (block sizes, warps, pipeline stages) of the fused kernels.

Those for 16-bit inputs in up to three dimensions are the fastest of a sweep on an H100 (2026-11-26); the others are the
largest that do not spill registers inside a loop on sm_80, sm_90 and sm_120, which `make kernels` checks by compiling.
"""

from typing import NamedTuple

from torch import Tensor

from ndformer.framework.kernels.fused_reference import Bias


class Variant(NamedTuple):
    queries: int
    keys: int
    warps: int
    stages: int


class Row(NamedTuple):
    """Variants for up to 2, up to 3 and up to 6 dimensions."""

    two: Variant
    three: Variant
    six: Variant


COMMON = Variant(64, 32, 4, 3)  # the fastest that does not spill, on an H100 (2026-11-26)
LARGE, FLAT, SMALL, THIN = Variant(128, 64, 8, 3), Variant(128, 32, 8, 3), Variant(64, 32, 4, 2), Variant(128, 16, 8, 2)
SQUARE, LOW, LEAST = Variant(64, 64, 4, 2), Variant(128, 32, 8, 2), Variant(64, 16, 4, 1)
FEW, TINY = Variant(32, 64, 4, 2), Variant(16, 32, 4, 2)  # queries, for keys
EVEN, LEAN, LIMB = (Variant(*tile, 4, 1) for tile in ((32, 32), (16, 32), (32, 16)))
# many warps for few numbers, and keys and values that wait in shared memory: for heads of 128 in float32
THEIRS, OWN, ONE = (Variant(*tile) for tile in ((16, 32, 8, 2), (32, 16, 8, 1), (16, 16, 8, 1)))
WIDEST = 128  # channels of a head

# by kernel, bytes of a number, and channels of a head, which are padded to a power of two
TABLE: dict[tuple[str, int, int], Row] = {
    ("forward", 2, 16): Row(COMMON, COMMON, SMALL),
    ("forward", 2, 32): Row(COMMON, COMMON, SMALL),
    ("forward", 2, 64): Row(COMMON, COMMON, SMALL),
    ("forward", 2, 128): Row(FLAT, LOW, EVEN),
    ("forward", 4, 16): Row(THIN, THIN, LEAST),
    ("forward", 4, 32): Row(THIN, THIN, LEAST),
    ("forward", 4, 64): Row(LEAST, LEAST, LEAN),
    ("forward", 4, 128): Row(THEIRS, THEIRS, THEIRS),
    ("backward_queries", 2, 16): Row(COMMON, COMMON, LEAST),
    ("backward_queries", 2, 32): Row(COMMON, COMMON, LEAST),
    ("backward_queries", 2, 64): Row(COMMON, COMMON, LEAST),
    ("backward_queries", 2, 128): Row(LOW, EVEN, LEAN),
    ("backward_queries", 4, 16): Row(LEAST, LEAST, LEAST),
    ("backward_queries", 4, 32): Row(LEAST, LEAST, LEAN),
    ("backward_queries", 4, 64): Row(LEAN, LEAN, TINY),
    ("backward_queries", 4, 128): Row(TINY, TINY, THEIRS),
    ("backward_keys", 2, 16): Row(SQUARE, FEW, TINY),
    ("backward_keys", 2, 32): Row(SQUARE, FEW, TINY),
    ("backward_keys", 2, 64): Row(SQUARE, FEW, TINY),
    ("backward_keys", 2, 128): Row(FEW, TINY, LIMB),
    ("backward_keys", 4, 16): Row(TINY, TINY, TINY),
    ("backward_keys", 4, 32): Row(TINY, TINY, LIMB),
    ("backward_keys", 4, 64): Row(TINY, TINY, LIMB),
    ("backward_keys", 4, 128): Row(OWN, OWN, ONE),
}


def variant(kernel: str, q: Tensor, bias: Bias) -> Variant:
    P, masked = 0 if bias.places is None else bias.places.shape[1], bias.kind == "cone" or bias.spans is not None
    return chosen(kernel, q.element_size(), q.shape[-1], P, masked)


def chosen(kernel: str, size: int, width: int, P: int, masked: bool) -> Variant:
    """`size`: bytes of a number. `masked`: logits are compared with something, in padding, packed rows and cones."""
    return TABLE[kernel, size, padded(size, width, P)][_column(P, masked)]


def _column(P: int, masked: bool) -> int:
    """A mask takes registers as another dimension does."""
    return min(2, (P > 2) + (P > 3) + masked)


def padded(size: int, width: int, P: int) -> int:
    """Channels of a head in registers. In float32 tiles of 16 spill where there are more than three dimensions, and
    those of 32 do not."""
    return max(32 if size == 4 and P > 3 else 16, 1 << (width - 1).bit_length())
