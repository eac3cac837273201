"""On a GPU the rotation kernel gives the bits of torch's operations, and gradients of learned angles to rounding."""

import pytest
import torch

from ndformer.framework.kernels.rotation import DTYPES, TRITON, rotate_by_operations, rotate_fused
from tests.kernels.rotations import CASES, inputs, with_gradients

pytestmark = pytest.mark.skipif(not TRITON, reason="no triton: pip install 'ndformer[gpu]'")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes, shared, halves, learned", CASES, ids=str)
def test_kernel_gives_the_bits_of_the_operations(
    sizes: tuple[int, int], shared: tuple[int, int], halves: bool, learned: bool, dtype: torch.dtype
) -> None:
    given = tuple(t.cuda() for t in inputs(*sizes, shared, dtype))
    out, d_x, *rest = with_gradients(rotate_fused, given, halves, False, learned=learned)
    expected, expected_d_x, *expected_rest = with_gradients(rotate_by_operations, given, halves, learned=learned)
    assert torch.equal(out, expected)
    torch.testing.assert_close(d_x, expected_d_x, rtol=1e-6 if dtype == torch.float32 else 1e-2, atol=1e-6)
    for a, b in zip(rest, expected_rest, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 if dtype == torch.float32 else 5e-2)
