"""The fused kernels, interpreted on a CPU, give the numbers of their reference in float64 (`make kernels`).

What this cannot show: races, wrong launches, the rounding of real tensor cores, speed.
"""

import math
import os
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from ndformer.framework.kernels import fused_reference as reference
from ndformer.framework.kernels.fused_reference import Bias

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("make kernels: kernels are interpreted in a process of their own", allow_module_level=True)
pytest.importorskip("triton", reason="make kernels installs triton")

from ndformer.framework.kernels import fused_launch

B, H, N, WIDTH = 2, 2, 130, 16
KINDS = ["none", "isotropic", "distance", "power", "logarithm", "gaussian", "cone"]
CASES = [(kind, P) for kind in KINDS for P in ((2,) if kind == "none" else (1, 2, 3))]
CASES += [("parabola", P) for P in range(1, 7)]
MASKS = ["plain", "unplaced", "padded", "packed", "packed, unplaced"]
CUTS = [0, 1, 40, 41, 100, 120]  # of packed samples; then padding

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")


class Results(NamedTuple):
    out: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor
    d_forms: Tensor


def place(mask: str, P: int, extent: float = 14, about: float = 0) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Places, which of them there are, and spans."""
    placed, spans, n = None, None, torch.arange(N)
    places = torch.rand(B, P, N) * extent + about
    if "unplaced" in mask:
        placed = (torch.rand(B, N) > 0.1) & (n > 0)
        places = places * placed[:, None]
    if "padded" in mask:  # a row of 57 tokens, and holes in both
        valid = (n < torch.tensor([[N], [57]])) & (n % 11 != 7)
        end = torch.where(valid, n + 1, 0).amax(1, keepdim=True)
        spans = torch.stack([torch.where(valid, 0, -1), torch.where(valid, end, 0)], 1).int()
    if "packed" in mask:
        first, last = torch.full((N,), -1), torch.zeros(N, dtype=torch.int64)
        for a, b in zip(CUTS, CUTS[1:]):
            first[a:b], last[a:b] = a, b
        spans = torch.stack([first, last])[None].int()
    return places, placed, spans


def shape(kind: str, P: int, radius: tuple[float, float]) -> Tensor | None:
    """Forms that fall off within one radius in the first head, and another in the second."""
    size = torch.tensor(radius)[:, None].expand(B, H, N) * (0.5 + torch.rand(B, H, N))
    if kind == "none":
        return None
    if kind == "cone":
        u = torch.nn.functional.normalize(torch.randn(H, P), dim=1)
        cone = torch.cat([u, torch.tensor([[0.7], [-0.3]]) - 1e-5], 1)
        return cone[None, :, :, None].expand(B, H, P + 1, N)
    if kind == "parabola":
        root = torch.randn(B, H, N, P, P) / (P**0.5 * size[..., None, None])
        M = -0.5 * root @ root.mT
        upper = [M[..., a, b] for a in range(P) for b in range(a, P)]
        return torch.stack([*upper, *(torch.randn(B, H, N, P) / size[..., None]).unbind(-1)], 2)
    numbers = {
        "isotropic": [-0.5 / size**2],
        "distance": [1 / size],
        "power": [1 / size, 0.5 + torch.rand(B, H, N)],
        "logarithm": [1 / size, 1 + torch.rand(B, H, N)],
        "gaussian": [size],
    }
    return torch.stack(numbers[kind], 2)


def interpreted(given: list[Tensor], bias: Bias) -> Results:
    q, k, v, d_out = given
    scale = q.shape[-1] ** -0.5
    out, lse = fused_launch.forward(q, k, v, bias, scale)
    return Results(
        out, *fused_launch.backward(q, k, v, bias, out, lse, d_out, torch.zeros_like(lse), q.shape[-1] ** -0.5)
    )


def exactly(given: list[Tensor], bias: Bias) -> Results:
    q, k, v, d_out = (t.double() for t in given)
    forms, places = (None if t is None else t.double() for t in (bias.forms, bias.places))
    bias = bias._replace(forms=forms, places=places)
    scale = q.shape[-1] ** -0.5
    out, lse = reference.forward(q, k, v, bias, scale)
    return Results(out, *reference.backward(q, k, v, bias, out, lse, d_out, torch.zeros_like(lse), scale))


def errors(given: list[Tensor], bias: Bias) -> dict[str, float]:
    pairs = zip(interpreted(given, bias), exactly(given, bias))
    found = {}
    for name, (ours, exact) in zip(Results._fields, pairs):
        found[name] = ((ours.double() - exact).norm() / exact.norm()).item() if exact.numel() else 0.0
    return found


def compare(
    kind: str, P: int, mask: str, dtype: torch.dtype, upstream: float = 1, width: int = WIDTH, **where: float
) -> None:
    torch.manual_seed(0)
    given = [torch.randn(B, H, N, width).to(dtype) for _ in range(3)]
    given.append((torch.randn(B, H, N, width) * upstream).to(dtype))
    extent = where.get("extent", 14)
    places, placed, spans = place(mask, P, **where)
    forms = shape(kind, P, (extent / 10, extent / 2))
    bias = Bias(forms, None if forms is None else places, None if forms is None else placed, spans, kind)
    found = errors(given, bias)
    assert not any(math.isnan(error) for error in found.values()), found
    if dtype == torch.float32:
        assert max(found[name] for name in ("out", "dq", "dk", "dv")) <= 1e-6, found
        assert found["d_forms"] <= 1e-5, found
        return
    floor = errors(given, Bias(None, None, None, spans, "none"))
    for name in ("out", "dq", "dk", "dv"):
        assert found[name] <= 1.5 * floor[name], (name, found, floor)


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
    compare("parabola", 2, "packed, unplaced", torch.float32, width=width)


def test_the_same_bits_each_time_and_any_strides() -> None:
    """Heads as a linear layer leaves them, (B, N, H, h), and laid out one after the other."""
    torch.manual_seed(0)
    places, placed, spans = place("unplaced", 2)
    bias = Bias(shape("parabola", 2, (2.0, 7.0)), places, placed, spans, "parabola")
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
