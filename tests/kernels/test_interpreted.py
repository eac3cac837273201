"""The fused kernels, interpreted on a CPU, give the numbers of their reference in float64 (`make kernels`).

What this cannot show: races, wrong launches, the rounding of real tensor cores, speed.
"""

import functools
import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.kernels.fused_reference import Bias

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("make kernels: kernels are interpreted in a process of their own", allow_module_level=True)
pytest.importorskip("triton", reason="make kernels installs triton")

import triton.runtime.interpreter as interpreter  # pyright: ignore[reportMissingImports]

from ndformer.framework.kernels import fused_launch
from tests.kernels.cases import CASES, MASKS, B, H, N, Results, bias_of, distances, exactly, shape

_patch = interpreter._patch_lang_tensor


def _patch_scalars(tensor: Any, *rest: Any) -> None:
    """Let the interpreter's scalars, arrays of one dimension, be integers: NumPy 2.5 refuses int() of them."""
    _patch(tensor, *rest)
    tensor.__index__ = lambda self: self.handle.data.item()


interpreter._patch_lang_tensor = _patch_scalars

WIDTH = 16
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")


def interpreted(given: list[Tensor], bias: Bias) -> Results:
    q, k, v, d_out = given
    scale = q.shape[-1] ** -0.5
    out, lse, rest = fused_launch.forward(q, k, v, bias, scale, learning=True)
    return Results(out, *fused_launch.backward(q, k, v, bias, out, lse, rest, d_out, torch.zeros_like(lse), scale))


def errors(given: list[Tensor], bias: Bias) -> dict[str, float]:
    return distances(interpreted(given, bias), exactly(given, bias))


@functools.cache
def without_bias(mask: str, dtype: torch.dtype, upstream: float, width: int) -> dict[str, float]:
    """Errors, which all biases are held to."""
    torch.manual_seed(0)
    spans = bias_of("none", 2, mask).spans
    given = [torch.randn(B, H, N, width).to(dtype) for _ in range(3)]
    given.append((torch.randn(B, H, N, width) * upstream).to(dtype))
    return errors(given, Bias(None, None, None, spans, "none"))


def compare(
    kind: str, P: int, mask: str, dtype: torch.dtype, upstream: float = 1, width: int = WIDTH, **where: float
) -> None:
    torch.manual_seed(0)
    given = [torch.randn(B, H, N, width).to(dtype) for _ in range(3)]
    given.append((torch.randn(B, H, N, width) * upstream).to(dtype))
    bias = bias_of(kind, P, mask, **where)
    found = errors(given, bias)
    assert not any(math.isnan(error) for error in found.values()), found
    if dtype == torch.float32:
        assert max(found[name] for name in ("out", "dq", "dk", "dv")) <= 1e-6, found
        assert found["d_forms"] <= 1e-5, found
        return
    floor = without_bias(mask, dtype, upstream, width)
    for name in ("out", "dq", "dk", "dv"):
        assert found[name] <= 1.5 * floor[name], (name, found, floor)


GIVEN = [(kind, P, mask, dtype) for kind, P in CASES for mask in MASKS for dtype in DTYPES]


@pytest.mark.parametrize(
    "kind, P, mask, dtype",
    GIVEN,
    ids=["-".join([f"{kind}{P}", mask.replace(", ", "_"), dtype]) for kind, P, mask, dtype in GIVEN],
)
def test_kernels_give_the_numbers_of_the_reference(kind: str, P: int, mask: str, dtype: str) -> None:
    compare(kind, P, mask, DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("extent, about, upstream", [(600, 0, 1), (14, 400, 1), (14, 0, 1e-6), (600, 400, 1e-6)])
@pytest.mark.parametrize("P", [1, 2, 3])
def test_far_places_and_small_gradients_cost_no_digits(
    P: int, extent: float, about: float, upstream: float, dtype: str
) -> None:
    compare("parabola", P, "unplaced", DTYPES[dtype], upstream, extent=extent, about=about)


def test_a_row_without_places_has_no_bias() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 70, WIDTH).half() for _ in range(3))
    forms, places = shape("parabola", 2, (1, 2)), torch.rand(1, 2, 70)
    assert forms is not None
    bias = Bias(forms[:1, :1, :, :70], places, torch.zeros(1, 70, dtype=torch.bool), None, "parabola")
    ours, *_ = fused_launch.forward(q, k, v, bias, 0.25, learning=True)
    plain, *_ = fused_launch.forward(q, k, v, Bias(None, None, None, None, "none"), 0.25, learning=True)
    torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize(
    "width, dtype, P",
    [
        *((width, "fp16", 2) for width in (64, 80, 96, 128)),
        *((width, "fp32", 2) for width in (32, 64, 80, 96, 128)),
        *((width, "fp32", P) for width, P in ((64, 5), (96, 5), (128, 6))),
    ],
)
def test_heads_of_all_widths(width: int, dtype: str, P: int) -> None:
    compare("parabola", P, "packed, unplaced", DTYPES[dtype], width=width)


def test_the_same_bits_each_time_and_any_strides() -> None:
    """Heads as a linear layer leaves them, (B, N, H, h), and laid out one after the other."""
    torch.manual_seed(0)
    bias = bias_of("parabola", 2, "unplaced")
    given = [torch.randn(B, N, H, WIDTH).transpose(1, 2) for _ in range(4)]
    first = interpreted(given, bias)
    for again in (given, [t.contiguous() for t in given]):
        assert all(torch.equal(a, b) for a, b in zip(interpreted(again, bias), first))
