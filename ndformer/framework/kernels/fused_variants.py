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


# TILE_WARPS_STAGES: T64x32_W4_S3 has 64 queries, 32 keys, 4 warps and 3 stages
T64x64_W4_S2 = Variant(64, 64, 4, 2)
T64x32_W4_S3 = Variant(64, 32, 4, 3)  # the fastest that does not spill, on an H100 (2026-11-26)
T64x32_W4_S2 = Variant(64, 32, 4, 2)
T64x16_W4_S1 = Variant(64, 16, 4, 1)
T32x64_W4_S2 = Variant(32, 64, 4, 2)
T32x32_W4_S1 = Variant(32, 32, 4, 1)
T32x16_W4_S1 = Variant(32, 16, 4, 1)
T16x32_W4_S2 = Variant(16, 32, 4, 2)
T16x32_W4_S1 = Variant(16, 32, 4, 1)
T128x32_W8_S3 = Variant(128, 32, 8, 3)
T128x32_W8_S2 = Variant(128, 32, 8, 2)
T128x16_W8_S2 = Variant(128, 16, 8, 2)
# many warps for few numbers, and keys and values that wait in shared memory: for heads of 128 in float32
T16x32_W8_S2 = Variant(16, 32, 8, 2)
T32x16_W8_S1 = Variant(32, 16, 8, 1)
T16x16_W8_S1 = Variant(16, 16, 8, 1)
WIDEST = 128  # channels of a head

# by kernel, bytes of a number, and channels of a head, which are padded to a power of two: the variants for up to 2, up
# to 3 and up to 6 dimensions
TABLE: dict[tuple[str, int, int], tuple[Variant, Variant, Variant]] = {
    ("forward", 2, 16): (T64x32_W4_S3, T64x32_W4_S3, T64x32_W4_S2),
    ("forward", 2, 32): (T64x32_W4_S3, T64x32_W4_S3, T64x32_W4_S2),
    ("forward", 2, 64): (T64x32_W4_S3, T64x32_W4_S3, T64x32_W4_S2),
    ("forward", 2, 128): (T128x32_W8_S3, T128x32_W8_S2, T32x32_W4_S1),
    ("forward", 4, 16): (T128x16_W8_S2, T128x16_W8_S2, T64x16_W4_S1),
    ("forward", 4, 32): (T128x16_W8_S2, T128x16_W8_S2, T64x16_W4_S1),
    ("forward", 4, 64): (T64x16_W4_S1, T64x16_W4_S1, T16x32_W4_S1),
    ("forward", 4, 128): (T16x32_W8_S2, T16x32_W8_S2, T16x32_W8_S2),
    ("backward_queries", 2, 16): (T64x32_W4_S3, T64x32_W4_S3, T64x16_W4_S1),
    ("backward_queries", 2, 32): (T64x32_W4_S3, T64x32_W4_S3, T64x16_W4_S1),
    ("backward_queries", 2, 64): (T64x32_W4_S3, T64x32_W4_S3, T64x16_W4_S1),
    ("backward_queries", 2, 128): (T128x32_W8_S2, T32x32_W4_S1, T16x32_W4_S1),
    ("backward_queries", 4, 16): (T64x16_W4_S1, T64x16_W4_S1, T64x16_W4_S1),
    ("backward_queries", 4, 32): (T64x16_W4_S1, T64x16_W4_S1, T16x32_W4_S1),
    ("backward_queries", 4, 64): (T16x32_W4_S1, T16x32_W4_S1, T16x32_W4_S2),
    ("backward_queries", 4, 128): (T16x32_W4_S2, T16x32_W4_S2, T16x32_W8_S2),
    ("backward_keys", 2, 16): (T64x64_W4_S2, T32x64_W4_S2, T16x32_W4_S2),
    ("backward_keys", 2, 32): (T64x64_W4_S2, T32x64_W4_S2, T16x32_W4_S2),
    ("backward_keys", 2, 64): (T64x64_W4_S2, T32x64_W4_S2, T16x32_W4_S2),
    ("backward_keys", 2, 128): (T32x64_W4_S2, T16x32_W4_S2, T32x16_W4_S1),
    ("backward_keys", 4, 16): (T16x32_W4_S2, T16x32_W4_S2, T16x32_W4_S2),
    ("backward_keys", 4, 32): (T16x32_W4_S2, T16x32_W4_S2, T32x16_W4_S1),
    ("backward_keys", 4, 64): (T16x32_W4_S2, T16x32_W4_S2, T32x16_W4_S1),
    ("backward_keys", 4, 128): (T32x16_W8_S1, T32x16_W8_S1, T16x16_W8_S1),
}


def variant(kernel: str, q: Tensor, bias: Bias) -> Variant:
    P, masked = 0 if bias.places is None else bias.places.shape[1], bias.spans is not None
    return table_variant(kernel, q.element_size(), q.shape[-1], P, masked)


def table_variant(kernel: str, size: int, width: int, P: int, masked: bool) -> Variant:
    """Return the tiles of a kernel from the table, for numbers of `size` bytes.

    `masked`: logits are masked, by padding or packed rows, which takes as many registers as another dimension."""
    return TABLE[kernel, size, padded(size, width, P)][min(2, (P > 2) + (P > 3) + masked)]


def padded(size: int, width: int, P: int) -> int:
    """Return the channels of a head in registers, a power of two.

    In float32 and more than three dimensions, tiles of 16 channels spill registers and tiles of 32 do not."""
    return max(32 if size == 4 and P > 3 else 16, 1 << (width - 1).bit_length())
