"""On a GPU the fused kernels give the numbers of their reference, the same ones each time."""

import pytest
import torch
from torch import Tensor

from ndformer.framework.kernels.fused import TRITON
from ndformer.framework.kernels.fused_op import attention
from ndformer.framework.kernels.fused_reference import Bias
from tests.kernels.cases import CASES, B, H, N, Results, bias_of, distances, exactly

pytestmark = pytest.mark.skipif(not TRITON, reason="no triton: pip install 'ndformer[gpu]'")


def on_gpu(given: list[Tensor], bias: Bias) -> Results:
    q, k, v, d_out = (t.cuda() for t in given)
    forms, places, placed, spans = (None if t is None else t.cuda() for t in bias[:4])
    learned = [q, k, v] if forms is None else [q, k, v, forms]
    for t in learned:
        t.requires_grad_()
    out, *_ = attention(q, k, v, forms, places, placed, spans, bias.kind, q.shape[-1] ** -0.5, learning=True)
    found = [t.cpu() for t in (out.detach(), *torch.autograd.grad(out, learned, d_out))]
    return Results(*found, *[torch.empty(0)] * (5 - len(found)))


def compare(kind: str, P: int, mask: str, width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given = [torch.randn(B, H, N, width).to(dtype) for _ in range(4)]
    bias = bias_of(kind, P, mask)
    ours = on_gpu(given, bias)
    found = distances(ours, exactly(given, bias))
    bound = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}[dtype]
    assert max(found[name] for name in ("out", "dq", "dk", "dv")) <= bound, found
    assert found["d_forms"] <= 4 * bound, found
    assert all(torch.equal(a, b) for a, b in zip(on_gpu(given, bias), ours))


@pytest.mark.parametrize("mask", ["unplaced", "padded", "packed, unplaced"])
@pytest.mark.parametrize("kind, P", [case for case in CASES if case[1] == 2 or case[0] == "parabola"])
def test_kernels_give_the_numbers_of_the_reference(kind: str, P: int, mask: str) -> None:
    compare(kind, P, mask, 64, torch.float16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [16, 32, 64, 80, 96, 128])
def test_heads_of_all_widths(width: int, dtype: torch.dtype) -> None:
    compare("parabola", 2, "unplaced", width, dtype)
