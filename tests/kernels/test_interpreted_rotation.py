"""The rotation kernel, interpreted on a CPU, gives the bits of torch's operations (`make kernels`)."""

import os

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("make kernels: kernels are interpreted in a process of their own", allow_module_level=True)
pytest.importorskip("triton", reason="make kernels installs triton")

import tests.kernels.test_interpreted  # noqa: F401  # the interpreter's integers
from ndformer.framework.kernels import rotation, rotation_triton
from tests.kernels.rotations import CASES, inputs


@pytest.mark.parametrize("sizes, shared, halves, back", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_kernel_gives_the_bits_of_the_operations(
    sizes: tuple[int, int], shared: tuple[int, int], halves: bool, back: bool, dtype: torch.dtype
) -> None:
    x, cos, sin, _ = inputs(*sizes, shared, dtype)
    found = rotation_triton.launch(x, cos, sin, halves, back)
    assert torch.equal(found, rotation.rotate_by_operations(x, cos, -sin if back else sin, halves))
