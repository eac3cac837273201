"""On a GPU, packed images in 16 bits go through torch's varlen_attn and give the numbers of the CPU in float64."""

import pytest
import torch

from ndformer.framework.kernels import attend
from ndformer.framework.kernels.choose import choose
from ndformer.modalities.image.adapter import ImagePatches
from tests.framework.helpers import relative


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("registers", [0, 3])
def test_packed_images_are_those_of_the_cpu(registers: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    adapter = ImagePatches(8, patch=2, registers=registers)
    where = adapter([torch.zeros(3, 2 * height, 2 * width) for height, width in [(1, 1), (9, 20), (14, 14)]]).where
    q, k, v = (torch.randn(1, 4, where.positions.shape[1], 64).to(dtype) for _ in range(3))
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    expected = attend(exact[0], exact[1], exact[2], where, None, backend="dense")
    ours = [t.cuda().requires_grad_() for t in (q, k, v)]
    there = where.to("cuda")
    assert choose(ours[0], ours[1], ours[2], there, None).name == "varlen"
    out = attend(ours[0], ours[1], ours[2], there, None)
    assert relative(out.detach().cpu(), expected.detach()) <= 2e-2
    direction = torch.randn(expected.shape)
    expected_gradients = torch.autograd.grad((expected * direction).sum(), exact)
    gradients = torch.autograd.grad((out * direction.cuda()).sum(), ours)
    for theirs, gradient in zip(expected_gradients, gradients):
        assert relative(gradient.cpu(), theirs) <= 4e-2
