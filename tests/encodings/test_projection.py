"""Projections in 16 bit: what is multiplied is rounded as q and k are, and nothing after that."""

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ndformer.encodings.projection import linear, project
from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import Where

HALVES = [torch.bfloat16, torch.float16]
PARABOLAS = ["PaPE", "PaPERI", "PaPECompact", "PaPEDirectional", "Polynomial"]


def random_factors() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 7, 96), torch.randn(3, 5, 96) / 10


@pytest.mark.parametrize("dtype", HALVES)
def test_rounded_numbers_are_summed_in_float32(dtype: torch.dtype) -> None:
    x, weight = random_factors()
    actual = project(x, weight, torch.empty(0, dtype=dtype))
    expected = torch.einsum("bnd,hmd->hmbn", x.to(dtype).double(), weight.to(dtype).double())
    assert actual.dtype == torch.float32
    assert (actual - expected).abs().max() <= 2e-6
    tokens_first = linear(x, weight.flatten(0, 1), torch.empty(0, dtype=dtype))
    assert torch.equal(tokens_first, actual.flatten(0, 1).permute(1, 2, 0))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_any_size_are_those_of_float64(dtype: torch.dtype, scale: float) -> None:
    x, weight = (t.requires_grad_() for t in random_factors())
    above = torch.randn(3, 5, 2, 7) * scale
    actual = torch.autograd.grad(project(x, weight, torch.empty(0, dtype=dtype)), (x, weight), above)
    values = torch.einsum("bnd,hmd->hmbn", x.double(), weight.double())
    for one, exact in zip(actual, torch.autograd.grad(values, (x, weight), above.double())):
        assert one.dtype == torch.float32
        assert (one - exact).norm() <= torch.finfo(dtype).eps * exact.norm()


def test_nan_above_is_nan_below_and_nothing_is_nothing() -> None:
    x, weight = (t.requires_grad_() for t in random_factors())
    for value, is_so in ((float("nan"), torch.isnan), (0.0, lambda t: t == 0)):
        above = torch.full((3, 5, 2, 7), value)
        slopes = torch.autograd.grad(project(x, weight, x.new_empty(0, dtype=torch.float16)), (x, weight), above)
        assert all(bool(is_so(slope).all()) for slope in slopes)


class Products(TorchDispatchMode):
    """The types that go into products over the channels of tokens, and come out, on the device of a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.__name__.split(".")[0] in ("mm", "addmm", "bmm") and 96 in (args[0].shape[-1], args[1].shape[-1]):
            self.calls.append((func, args[0].dtype, out.dtype))
        return out


def test_on_a_gpu_no_product_of_all_tokens_is_of_float32() -> None:
    with torch.no_grad(), FakeTensorMode(), Products() as products:
        x, weight = torch.empty(2, 7, 96, device="cuda"), torch.empty(3, 5, 96, device="cuda")
        assert project(x, weight, x.to(torch.bfloat16)).dtype == torch.float32
    assert products.calls == [(torch.ops.aten.mm.dtype, torch.bfloat16, torch.float32)]


@pytest.mark.parametrize("name", PARABOLAS)
def test_a_layer_is_as_wrong_as_with_projections_in_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In errors of the same layer without positions, under autocast and as a model in half precision."""
    where = Where(torch.rand(1, 60, 2, generator=torch.Generator().manual_seed(0)) * 32)
    for dtype in HALVES:
        for autocast in (True, False):
            floor = error("NoPE", where, dtype, autocast)
            mixed = error(name, where, dtype, autocast)
            with monkeypatch.context() as patch:
                patch.setattr("ndformer.encodings.projection.is_half", lambda like: False)
                finer = error(name, where, dtype, autocast)
            assert mixed != finer or not autocast, "the projections are not in 16 bit"  # half weights are rounded
            assert mixed <= finer + 0.1 * floor, (dtype, autocast)


@torch.no_grad()
def error(name: str, where: Where, dtype: torch.dtype, autocast: bool) -> float:
    torch.manual_seed(0)
    encoding = build_encoding(dict(type=name), dim=96, heads=2, position_dims=2, depth=1)
    attention, x = Attention(96, 2, encoding.layer(0, 1)), torch.randn(1, 60, 96)
    attention, x = (attention, x) if autocast else (attention.to(dtype), x.to(dtype))
    context = torch.autocast("cpu", dtype) if autocast else contextlib.nullcontext()
    with context:
        actual = attention(x, where, encoding.prepare(where)).double()
    exact = Where(where.positions.double())
    expected = attention.double()(x.double(), exact, encoding.double().prepare(exact))
    return float((actual - expected).norm() / expected.norm())
