"""Parabolas in narrow heads, compiled: the numbers of the reference, and a no where it cannot serve."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.channels import single_block
from ndformer.framework.bias.parabolas import IsotropicBias, QuadraticBias
from ndformer.framework.kernels import attend, narrow_backward, narrow_numba
from ndformer.framework.kernels.choose import choose
from ndformer.framework.kernels.narrow_numba import NEGLIGIBLE, TILE, pieces
from ndformer.framework.tokens import Where
from tests.framework.helpers import relative

CASES: dict[str, Any] = dict(
    seed=st.integers(0, 99),
    tokens=st.sampled_from([1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 300]),
    dims=st.integers(1, 3),
    widths=st.sampled_from([(8, 8), (16, 16), (24, 24), (16, 8), (8, 40)]),
    kind=st.sampled_from(["both", "distance", "direction", "isotropic"]),
    layout=st.sampled_from(["plain", "shared", "padded"]),
    threads=st.integers(1, 2),
)


def bias_of(r: Tensor, heads: int, g: torch.Generator, kind: str = "both") -> IsotropicBias | QuadraticBias:
    B, N, P = r.shape
    some = lambda n: [torch.randn(B, heads, N, generator=g).to(r.dtype) for _ in range(n)]
    if kind == "isotropic":
        return IsotropicBias(some(1)[0], r)
    return QuadraticBias(
        some(P * (P + 1) // 2) if kind != "direction" else None, some(P) if kind != "distance" else None, r
    )


@settings(max_examples=12, deadline=None)
@given(**CASES)
@example(seed=95, tokens=17, dims=3, widths=(8, 8), kind="distance", layout="shared", threads=1)
def test_outputs_and_gradients_are_those_of_the_reference(
    seed: int, tokens: int, dims: int, widths: tuple[int, int], kind: str, layout: str, threads: int
) -> None:
    """Of queries, keys, values, which lie in memory as a layer has them, and each coefficient; what padding holds gets
    none."""
    g = torch.Generator().manual_seed(seed)
    B, H = 3, 2
    r = torch.rand(1 if layout == "shared" else B, tokens, dims, generator=g) * 2
    valid = None
    if layout == "padded":
        valid = torch.rand(B, tokens, generator=g) < torch.tensor([[0.6], [0.0], [1.0]])
        r = r.masked_fill(~valid[..., None], math.nan)
    some = lambda width: torch.randn(B, tokens, H, width, generator=g).transpose(1, 2)
    upstream, given = some(widths[1]), [some(w).requires_grad_() for w in (widths[0], *widths)]
    bias = bias_of(r.expand(B, -1, -1), H, g, kind)
    learned = [bias.alpha] if isinstance(bias, IsotropicBias) else [*(bias.M or ()), *(bias.c or ())]
    learned = [t.requires_grad_() for t in learned]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = gradients(given, learned, kind, r, valid, upstream, "narrow")
    finally:
        torch.set_num_threads(before)
    exact = [t.detach().double().requires_grad_() for t in (*given, *learned)]
    expected = gradients(exact[:3], exact[3:], kind, r.double(), valid, upstream.double(), "dense")
    plain = gradients(given, learned, kind, r, valid, upstream, "dense")  # float32, as the kernel
    for i, (ours, theirs, rounded) in enumerate(zip(found, expected, plain)):
        # gradients of coefficients are sums over all pairs: where terms cancel, torch's float32 has such an error, too
        assert relative(ours, theirs) <= max(5e-6, 2 * relative(rounded, theirs) if i > 3 else 0.0)
    if valid is not None:
        for ours in found:
            assert (ours[~valid[:, None].expand(ours.shape[:3])] == 0).all()


def gradients(
    qkv: list[Tensor], learned: list[Tensor], kind: str, r: Tensor, valid: Tensor | None, upstream: Tensor, backend: str
) -> list[Tensor]:
    """The output, and the gradients of q, k, v and the coefficients."""
    where = Where(r, valid=valid)
    places, n = where.positions, r.shape[-1] * (r.shape[-1] + 1) // 2
    if kind == "isotropic":
        bias: Bias = IsotropicBias(learned[0], places)
    else:
        forms = 0 if kind == "direction" else n
        bias = QuadraticBias(learned[:forms] or None, learned[forms:] or None, places)
    out = attend(qkv[0], qkv[1], qkv[2], where, bias, backend=backend)
    return [out.detach(), *torch.autograd.grad(out, [*qkv, *learned], upstream)]


def test_gradients_far_from_the_origin_lose_nothing_and_threads_do_not_matter() -> None:
    g = torch.Generator().manual_seed(0)
    r = torch.randint(0, 8, (4, 130, 3), generator=g).float()
    qkv = [torch.randn(4, 2, 130, 16, generator=g).requires_grad_() for _ in range(3)]
    learned = [(0.1 * torch.randn(4, 2, 130, generator=g)).requires_grad_() for _ in range(9)]
    upstream = torch.randn(4, 2, 130, 16, generator=g)
    near = gradients(qkv, learned, "both", r, None, upstream, "narrow")
    before = torch.get_num_threads()
    torch.set_num_threads(3 - min(before, 2))
    try:
        far = gradients(qkv, learned, "both", r + 2.0**20, None, upstream, "narrow")
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, near, far))


def test_negligible_weights_are_zero_and_others_exact() -> None:
    """Products of smaller weights are denormals, with which training took 14 times as long on some processors."""
    logits = torch.linspace(-200, 0, 4001)
    found = logits.clone()
    pieces(TILE).exp2(found.numpy(), np.float32(0))
    seen = logits >= -NEGLIGIBLE
    assert (found[~seen] == 0).all()
    torch.testing.assert_close(found[seen], logits[seen].double().exp2().float(), rtol=5e-7, atol=0)


@pytest.mark.parametrize("extent", [10.0, 100.0, 1e4])
def test_far_keys_with_negligible_weights_change_nothing(extent: float) -> None:
    """Outputs and gradients are those of float64 to float32 rounding, also where no other key has weight."""
    g = torch.Generator().manual_seed(0)
    r = torch.rand(2, 200, 2, generator=g) * extent
    qkv = [torch.randn(2, 2, 200, 16, generator=g).requires_grad_() for _ in range(3)]
    squared = [-1.0, 0.0, -1.0]  # xx, xy, yy: distance squared
    learned = [torch.full((2, 2, 200), value).requires_grad_() for value in squared]
    upstream = torch.randn(2, 2, 200, 16, generator=g)
    found = gradients(qkv, learned, "distance", r, None, upstream, "narrow")
    exact = [t.detach().double().requires_grad_() for t in (*qkv, *learned)]
    expected = gradients(exact[:3], exact[3:], "distance", r.double(), None, upstream.double(), "dense")
    for ours, theirs in zip(found, expected):
        assert relative(ours, theirs) <= 5e-6


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_key_that_is_not_finite_is_seen_in_every_output(bad: float) -> None:
    g = torch.Generator().manual_seed(0)
    r = torch.rand(1, 40, 3, generator=g)
    q, k, v = (torch.randn(1, 1, 40, 16, generator=g) for _ in range(3))
    bias = bias_of(r, 1, g)
    k[0, 0, 7, 3] = bad
    ours, theirs = (attend(q, k, v, Where(r), bias, backend=backend) for backend in ("narrow", "dense"))
    assert torch.equal(ours.isfinite(), theirs.isfinite())
    assert not ours.isfinite().all()


def test_auto_takes_it_where_torch_would_take_longer() -> None:
    """For far positions, which would be a mask; with gradients, for long rows."""
    g = torch.Generator().manual_seed(0)
    r = torch.rand(1, 100, 3, generator=g)
    q, k, v = (torch.randn(1, 2, 100, 16, generator=g) for _ in range(3))
    near, far, where, learned = bias_of(r, 2, g), bias_of(r, 2, g), Where(r), q.clone().requires_grad_()
    near.local = single_block(r)  # near enough to be extra channels of q and k
    padded, unplaced = Where(r, valid=torch.ones(1, 100).bool()), Where(r, placed=torch.arange(100)[None] > 0)
    chosen = {"narrow": [(q, where, far), (q, padded, far)]}
    chosen["sdpa"] = [(q, where, near), (q.double(), where, far), (q, unplaced, far)]
    chosen["sdpa"] += [(learned, where, far), (learned, padded, far)]
    for name, cases in chosen.items():
        for queries, places, bias in cases:
            assert choose(queries, k.to(queries.dtype), v.to(queries.dtype), places, bias).name == name
    for dims in (2, 3):
        places = torch.rand(1, 300, dims)
        long = torch.randn(1, 2, 300, 16).requires_grad_()
        assert choose(long, long, long, Where(places), bias_of(places, 2, g)).name == "narrow"
    for tokens, name in ((9, "sdpa"), (50, "narrow")):
        few = torch.randn(1, 2, tokens, 16)
        assert choose(few, few, few, Where(r[:, :tokens]), bias_of(r[:, :tokens], 2, g)).name == name


def test_transforms_of_torch_func_go_elsewhere() -> None:
    g = torch.Generator().manual_seed(0)
    r = torch.rand(1, 410, 3, generator=g)
    q, k, v = (torch.randn(1, 1, 410, 8, generator=g) for _ in range(3))
    bias = bias_of(r, 1, g)
    loss = lambda q: attend(q, k, v, Where(r), bias).square().sum()
    learned = q.clone().requires_grad_()
    loss(learned).backward()
    assert learned.grad is not None
    assert relative(torch.func.grad(loss)(q), learned.grad.double()) <= 1e-5


def test_what_it_cannot_do_is_refused() -> None:
    g = torch.Generator().manual_seed(0)
    r = torch.rand(1, 8, 3, generator=g)
    q = torch.randn(1, 2, 8, 16, generator=g)
    odd, four = torch.randn(1, 2, 8, 12), torch.rand(1, 8, 4)
    for given_q, where, bias in [
        (q, Where(r), None),
        (q.double(), Where(r), bias_of(r, 2, g)),
        (odd, Where(r), bias_of(r, 2, g)),
        (q.detach(), Where(four), bias_of(four, 2, g)),
        (q.detach(), Where(r, placed=torch.arange(8)[None] > 0), bias_of(r, 2, g)),
    ]:
        with pytest.raises(ValueError, match=r"backend 'narrow' requires a parabolic bias .* Use backend 'auto'"):
            attend(given_q, given_q.detach(), given_q.detach(), where, bias, backend="narrow")


def test_other_processes_find_them_compiled() -> None:
    """Keys of numba's cache on disk have the closures, of which a compiled function differs in each process."""
    for module in (narrow_numba, narrow_backward):
        shared = inspect.getclosurevars(module.compiled()).nonlocals["shared"]
        main = getattr(module, "attention" if module is narrow_numba else "gradients")
        for function in (shared, main):
            cells = [cell.cell_contents for cell in function.py_func.__closure__ or ()]
            assert not any(hasattr(value, "py_func") for value in cells), cells
        assert module is narrow_numba or narrow_numba.SOURCE in [c.cell_contents for c in main.py_func.__closure__]
