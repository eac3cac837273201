"""Sizes of tiles (block sizes, warps, stages of the pipeline) for the fused kernels, so that loops stay in registers.

Found by compiling, for sm_80, sm_90 and sm_120: the largest that spill nothing in a loop. `make kernels` compiles
all of it and looks. How fast they are on a GPU is not in it.
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


LARGE, FLAT, SMALL, THIN = Variant(128, 64, 8, 3), Variant(128, 32, 8, 3), Variant(64, 32, 4, 2), Variant(128, 16, 8, 2)
SQUARE, LOW, SLOW, LEAST = Variant(64, 64, 4, 2), Variant(128, 32, 8, 2), Variant(128, 32, 8, 1), Variant(64, 16, 4, 1)
FEW, TINY = Variant(32, 64, 4, 2), Variant(16, 32, 4, 2)  # queries, for keys

# by kernel, bytes of a number, and channels of a head, which are padded to a power of two
TABLE: dict[tuple[str, int, int], Row] = {
    ("forward", 2, 16): Row(LARGE, FLAT, SMALL),
    ("forward", 2, 32): Row(LARGE, FLAT, SMALL),
    ("forward", 2, 64): Row(LARGE, FLAT, SMALL),
    ("forward", 2, 128): Row(FLAT, LOW, LOW),
    ("forward", 4, 16): Row(THIN, THIN, LEAST),
    ("forward", 4, 32): Row(THIN, THIN, LEAST),
    ("forward", 4, 64): Row(THIN, THIN, LEAST),
    ("backward_queries", 2, 16): Row(LOW, LOW, LEAST),
    ("backward_queries", 2, 32): Row(LOW, LOW, LEAST),
    ("backward_queries", 2, 64): Row(LOW, LOW, LEAST),
    ("backward_queries", 2, 128): Row(LOW, SLOW, SLOW),
    ("backward_queries", 4, 16): Row(LEAST, LEAST, LEAST),
    ("backward_queries", 4, 32): Row(LEAST, LEAST, LEAST),
    ("backward_queries", 4, 64): Row(LEAST, LEAST, LEAST),
    ("backward_keys", 2, 16): Row(SQUARE, FEW, TINY),
    ("backward_keys", 2, 32): Row(SQUARE, FEW, TINY),
    ("backward_keys", 2, 64): Row(SQUARE, FEW, TINY),
    ("backward_keys", 2, 128): Row(FEW, TINY, TINY),
    ("backward_keys", 4, 16): Row(TINY, TINY, TINY),
    ("backward_keys", 4, 32): Row(TINY, TINY, TINY),
    ("backward_keys", 4, 64): Row(TINY, TINY, TINY),
}


def variant(kernel: str, q: Tensor, bias: Bias) -> Variant:
    P = 0 if bias.places is None else bias.places.shape[1]
    return chosen(kernel, q.element_size(), q.shape[-1], P, bias.kind == "cone" or bias.spans is not None)


def chosen(kernel: str, size: int, width: int, P: int, masked: bool) -> Variant:
    """`size`: bytes of a number. `masked`: logits are compared with something, in padding, packed rows and cones."""
    return TABLE[kernel, size, max(16, 1 << (width - 1).bit_length())][_column(P, masked)]


def fits(size: int, width: int, P: int, masked: bool) -> bool:
    """Whether there is a variant that does not spill."""
    if size == 4:
        return P <= 3 and width <= (64, 32, 16)[_column(P, masked)]
    return width <= (128 if P <= 2 else 64)


def _column(P: int, masked: bool) -> int:
    """A mask takes registers as another dimension does."""
    return min(2, (P > 2) + (P > 3) + masked)
