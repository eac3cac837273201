"""The fused kernels, interpreted on a CPU, give the numbers of their reference in float64 (`make kernels`).

What this cannot show: races, wrong launches, the rounding of real tensor cores, speed.
"""

import math
import os

import pytest
import torch
from torch import Tensor

from ndformer.framework.kernels import fused_reference as reference
from ndformer.framework.kernels.fused_reference import Bias

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("make kernels: kernels are interpreted in a process of their own", allow_module_level=True)
pytest.importorskip("triton", reason="make kernels installs triton")

from ndformer.framework.kernels import fused_launch
from tests.kernels.cases import CASES, MASKS, B, H, N, Results, bias_of, distances, exactly

WIDTH = 16

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")


def interpreted(given: list[Tensor], bias: Bias) -> Results:
    q, k, v, d_out = given
    scale = q.shape[-1] ** -0.5
    out, lse = fused_launch.forward(q, k, v, bias, scale)
    return Results(out, *fused_launch.backward(q, k, v, bias, out, lse, d_out, torch.zeros_like(lse), scale))


def errors(given: list[Tensor], bias: Bias) -> dict[str, float]:
    return distances(interpreted(given, bias), exactly(given, bias))


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
    floor = errors(given, Bias(None, None, None, bias.spans, "none"))
    most = 1.5 if P <= 3 else 2.0  # in more dimensions fewer keys share the weight, and sums average less
    for name in ("out", "dq", "dk", "dv"):
        assert found[name] <= most * floor[name], (name, found, floor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("mask", MASKS, ids=[mask.replace(", ", "_") for mask in MASKS])
@pytest.mark.parametrize("kind, P", CASES, ids=[f"{kind}{P}" for kind, P in CASES])
def test_kernels_give_the_numbers_of_the_reference(kind: str, P: int, mask: str, dtype: torch.dtype) -> None:
    compare(kind, P, mask, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("extent, about, upstream", [(600, 0, 1), (14, 400, 1), (14, 0, 1e-6), (600, 400, 1e-6)])
@pytest.mark.parametrize("P", [1, 2, 3])
def test_far_places_and_small_gradients_cost_no_digits(
    P: int, extent: float, about: float, upstream: float, dtype: torch.dtype
) -> None:
    compare("parabola", P, "unplaced", dtype, upstream, extent=extent, about=about)


@pytest.mark.parametrize("width", [32, 64, 80, 96, 128])
def test_heads_of_all_widths(width: int) -> None:
    compare("parabola", 2, "packed, unplaced", torch.float32 if width == 32 else torch.float16, width=width)


def test_the_same_bits_each_time_and_any_strides() -> None:
    """Heads as a linear layer leaves them, (B, N, H, h), and laid out one after the other."""
    torch.manual_seed(0)
    bias = bias_of("parabola", 2, "unplaced")
    given = [torch.randn(B, N, H, WIDTH).transpose(1, 2) for _ in range(4)]
    first = interpreted(given, bias)
    for again in (given, [t.contiguous() for t in given]):
        assert all(torch.equal(a, b) for a, b in zip(interpreted(again, bias), first))


def test_blocks_outside_of_cones_are_not_looked_at() -> None:
    """Keys there may be NaN."""
    torch.manual_seed(0)
    line = torch.arange(4 * 64.0)[None, None]  # places on a line, and a cone that looks ahead
    q, k, v = (torch.randn(1, 1, 256, WIDTH) for _ in range(3))
    forms = torch.tensor([1.0, 0.5])[None, None, :, None].expand(1, 1, 2, 256)
    bias = Bias(forms, line, None, None, "cone")
    expected, _ = reference.forward(q, k, v, bias, q.shape[-1] ** -0.5)
    k[:, :, :64], v[:, :, :64] = math.nan, math.nan
    out, _ = fused_launch.forward(q, k, v, bias, q.shape[-1] ** -0.5)
    torch.testing.assert_close(out[:, :, 128:], expected[:, :, 128:])
