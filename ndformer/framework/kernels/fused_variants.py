"""Sizes of tiles for the fused kernels, so that all stays in registers."""

from typing import NamedTuple

from torch import Tensor

from ndformer.framework.kernels.fused_reference import Bias


class Variant(NamedTuple):
    queries: int
    keys: int
    warps: int
    stages: int


def variant(kernel: str, q: Tensor, bias: Bias) -> Variant:
    return Variant(64, 32, 4, 2) if kernel != "backward_keys" else Variant(32, 64, 4, 2)
