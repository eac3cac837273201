"""Cases of the rotation kernel: layouts of q and k, widths of heads, tables shared by heads or by samples."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

B, H, N = 2, 3, 77
# channels of a head and how many pairs of them rotate; samples and heads of the table; `halves`; a choice of the test
CASES = list(
    itertools.product([(64, 32), (16, 7), (80, 40), (24, 12)], [(1, 1), (B, 1), (1, H)], [False, True], [False, True])
)


def inputs(
    width: int, pairs: int, shared: tuple[int, int], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q as a view into the product of q, k and v; cosines and sines; a gradient of the result."""
    torch.manual_seed(0)
    x = torch.randn(B, N, 3, H, width).to(dtype)[:, :, 0].transpose(1, 2)
    angles = torch.randn(*shared, N, pairs) * 9
    return x, angles.cos(), angles.sin(), torch.randn(B, H, N, width).to(dtype)


def with_gradients(
    rotate: Callable[..., Tensor], given: tuple[Tensor, ...], *options: bool, learned: bool
) -> list[Tensor]:
    """The result and the gradients of x and, where they are learned, of cosines and sines."""
    *leaves, d_out = (t.detach().clone(memory_format=torch.preserve_format) for t in given)
    for t in leaves if learned else leaves[:1]:
        t.requires_grad_()
    out = rotate(*leaves, *options)
    return [out.detach(), *torch.autograd.grad(out, [t for t in leaves if t.requires_grad], d_out)]
