"""ndformer::rotate has the gradients of torch's operations, of learned angles too."""

import pytest
import torch

from ndformer.framework.kernels.rotation import rotate_by_operations, rotate_fused
from tests.kernels.rotations import CASES, inputs, with_gradients


@pytest.mark.parametrize("sizes, shared, halves, learned", CASES, ids=str)
def test_gradients_are_those_of_the_operations(
    sizes: tuple[int, int], shared: tuple[int, int], halves: bool, learned: bool
) -> None:
    given = tuple(t.double() for t in inputs(*sizes, shared, torch.float64))
    found = with_gradients(rotate_fused, given, halves, False, learned=learned)
    for a, b in zip(found, with_gradients(rotate_by_operations, given, halves, learned=learned), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_the_operator_is_one_that_torch_can_trace() -> None:
    x, cos, sin, _ = inputs(16, 7, (1, 1), torch.float32)
    torch.library.opcheck(rotate_fused, (x.requires_grad_(), cos.requires_grad_(), sin, False, False))
