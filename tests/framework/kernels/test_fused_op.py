"""The operator of fused attention: its gradients are those of its formula, and torch can export and compile it."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ndformer.framework.kernels.fused_op import attention, attention_backward
from tests.framework.helpers import relative

B, H, N, WIDTH, SCALE = 2, 2, 5, 4, 0.5
COUNTS = {"none": 0, "isotropic": 1, "distance": 1, "power": 2, "logarithm": 2, "gaussian": 1, "parabola": 5}


class Case(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    forms: Tensor | None
    places: Tensor | None
    placed: Tensor | None
    spans: Tensor | None
    kind: str
    scale: float = SCALE
    learning: bool = True


def case(kind: str, dtype: torch.dtype = torch.float64, masks: bool = True) -> Case:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, B, H, N, WIDTH, dtype=dtype).unbind(0)
    forms = places = placed = spans = None
    if kind != "none":
        places = torch.randint(0, 4, (B, 2, N)).to(dtype)
        forms = torch.rand(B, H, COUNTS[kind], N, dtype=dtype) + 0.5
    if masks:  # samples of two and two tokens beside padding, and a token without a place in each row
        first, last = (
            torch.tensor([[0, 0, 2, 2, -1], [-1, 1, 1, 1, 1]]),
            torch.tensor([[2, 2, 4, 4, 0], [0, 5, 5, 5, 5]]),
        )
        spans = torch.stack([first, last], 1).int()
        if places is not None:
            placed = torch.arange(N) != torch.tensor([[1], [3]])
            places = places * placed[:, None]
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    forms = None if forms is None else forms.detach().requires_grad_()
    return Case(q, k, v, forms, places, placed, spans, kind)


@pytest.mark.parametrize("kind", COUNTS)
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    given = case(kind)
    learned = [t for t in given[:4] if t is not None]
    rest = given[len(learned) :]
    real = torch.ones(B, 1, N, dtype=torch.bool) if given.spans is None else given.spans[:, :1] >= 0

    def both(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        out, lse, _ = attention(*tensors, *rest)
        return out, lse.masked_fill(~real, 0)

    assert torch.autograd.gradcheck(both, [t.detach().requires_grad_() for t in learned], fast_mode=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "parabola"])
def test_torch_finds_the_operator_sound(kind: str) -> None:
    torch.library.opcheck(attention, tuple(case(kind, torch.float32, masks=False)))


def test_it_is_exported_and_compiled_whole_with_its_gradients() -> None:
    given = case("parabola", torch.float32)

    class Layer(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, forms: Tensor) -> Tensor:
            return attention(q, k, v, forms, *given[4:])[0] * 2

    tensors = tuple(t for t in given[:4] if t is not None)
    eager = Layer()(*tensors)
    assert torch.equal(torch.export.export(Layer(), tensors).module()(*tensors), eager)
    whole = torch.compile(Layer(), fullgraph=True, backend="aot_eager")(*tensors)
    for a, b in zip(torch.autograd.grad(whole.sum(), tensors), torch.autograd.grad(eager.sum(), tensors)):
        assert torch.equal(a, b)


def test_autocast_and_checkpoints_change_nothing() -> None:
    given = case("parabola", torch.float32)
    tensors = [t for t in given[:4] if t is not None]

    def once(*tensors: Tensor) -> Tensor:
        return attention(*tensors, *given[4:])[0]

    plain = once(*tensors)
    expected = torch.autograd.grad(plain.square().sum(), tensors)
    with torch.autocast("cpu", torch.bfloat16):
        kept = checkpoint(once, *tensors, use_reentrant=False)
    assert torch.equal(kept, plain)
    for a, b in zip(torch.autograd.grad(kept.square().sum(), tensors), expected):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_keep_forms_and_their_gradients_in_float32(dtype: torch.dtype) -> None:
    exact = case("parabola", torch.float32)
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in exact[:3])
    out, lse, _ = attention(q, k, v, *exact[3:])
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)
    assert exact.forms is not None
    ours = torch.autograd.grad(out[..., ::2].sum().float(), exact.forms)[0]
    wide = attention(q.float(), k.float(), v.float(), *exact[3:])[0]
    theirs = torch.autograd.grad(wide[..., ::2].sum(), exact.forms)[0]
    assert ours.dtype == torch.float32
    assert relative(ours, theirs) < (3e-2 if dtype == torch.bfloat16 else 4e-3)


def in_space() -> Case:
    """Places of which the nearest take nearly all of the weight, in 16 bits."""
    torch.manual_seed(0)
    q, k, v = (t.half().requires_grad_() for t in torch.randn(3, B, H, 40, WIDTH).unbind(0))
    forms = torch.full((B, H, 1, 40), -0.5).requires_grad_()
    return Case(q, k, v, forms, 5 * torch.rand(B, 3, 40), None, None, "isotropic")


def test_what_rounding_takes_from_the_output_in_space_is_not_in_the_gradients() -> None:
    given = in_space()
    out, lse, rest = attention(*given)
    exact = given._replace(q=given.q.float(), k=given.k.float(), v=given.v.float())
    wide, _, none = attention(*exact)
    assert relative(out.double() + rest.double(), wide.double()) < 1e-6
    d_out = torch.randn_like(out)
    expected = torch.autograd.grad(wide, [exact.q, exact.k], d_out.float())

    def error(rest: Tensor) -> float:
        found = attention_backward(*given[:7], out, lse, rest, d_out, torch.zeros_like(lse), given.kind, SCALE)
        return max(relative(a.double(), b.double()) for a, b in zip(found, expected))

    assert error(rest) < 0.75 * error(torch.empty(0))
    assert not none.numel()  # float32 has nothing left
    assert not attention(*given._replace(learning=False))[2].numel()
    torch.library.opcheck(attention, tuple(given))
