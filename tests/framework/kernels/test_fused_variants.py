"""Tile sizes of the fused kernels: every head that they serve has some."""

import pytest
import torch

from ndformer.framework.kernels.fused import AXES, DTYPES
from ndformer.framework.kernels.fused_reference import Bias
from ndformer.framework.kernels.fused_variants import WIDEST, Variant, variant


def tiles(kernel: str, dtype: torch.dtype, width: int, P: int, spans: bool = False) -> Variant:
    places, masks = torch.zeros(1, P, 4) if P else None, torch.zeros(1, 2, 4) if spans else None
    return variant(kernel, torch.zeros(1, 1, 4, width, dtype=dtype), Bias(None, places, None, masks, "parabola"))


@pytest.mark.parametrize("kernel", ["forward", "backward_queries", "backward_keys"])
def test_there_are_tiles_for_every_head_dtype_and_number_of_dimensions(kernel: str) -> None:
    for dtype in DTYPES:
        for width in range(1, WIDEST + 1):
            for P in range(AXES + 1):
                found = tiles(kernel, dtype, width, P)
                assert found.queries % 16 == found.keys % 16 == 0


def test_a_mask_takes_the_tiles_of_one_more_dimension() -> None:
    for P in (2, 3):
        assert tiles("forward", torch.float32, 64, P, spans=True) == tiles("forward", torch.float32, 64, P + 1)
