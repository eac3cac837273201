"""Every way to compute attention gives the numbers of attention written out pair by pair."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as flex_attention
from torch import Tensor

import ndformer.framework.kernels.dense as dense_module
import ndformer.framework.kernels.fused as fused_module
import ndformer.framework.kernels.sdpa as sdpa_module
from ndformer.framework.bias.base import Bias, SumBias
from ndformer.framework.bias.channels import single_block
from ndformer.framework.bias.parabolas import IsotropicBias
from ndformer.framework.bias.pointwise import ConeBias, DistanceBias, TableBias
from ndformer.framework.kernels import attend
from ndformer.framework.kernels.choose import AUTO, choose
from ndformer.framework.kernels.choose import BACKENDS as ALL
from ndformer.framework.kernels.flex import untraced
from ndformer.framework.tokens import Where
from tests.framework.helpers import relative, spy
from tests.framework.pairwise import HEADS, KINDS, LAYOUTS, WIDTH, PairOnly, RowsOnly, by_hand, make, places

BACKENDS = ["dense", "sdpa", "flex"]  # which take everything


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with untraced():
        yield


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_backends_give_the_numbers_of_attention_by_hand(kind: str, layout: str) -> None:
    """Forward and backward; float64, float32 and 16 bit, whose inputs are rounded and nothing else."""
    for dtype, tolerance in [(torch.float64, 1e-11), (torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.half, 2e-3)]:
        exact = torch.promote_types(dtype, torch.float32)
        torch.manual_seed(1)
        where = places(layout, exact)
        B, N = 3, where.positions.shape[1]
        qkv = [torch.randn(B, HEADS, N, WIDTH).to(dtype).requires_grad_() for _ in range(3)]
        bias, values, weights = make(kind, where, exact)
        double = [t.detach().double().requires_grad_() for t in qkv]
        expected = by_hand(double[0], double[1], double[2], where, values.double())
        direction = torch.randn(expected.shape)
        wanted = torch.autograd.grad((expected * direction).sum(), [*double, *weights], retain_graph=True)
        with torch.no_grad():
            few = [name for name in ("narrow", "fused") if ALL[name].serves(qkv[0], qkv[1], qkv[2], where, bias)]
        for backend in [*BACKENDS, *few]:
            if backend in ("flex", "narrow"):
                if kind == "rows only":
                    continue
                with torch.no_grad():
                    y = attend(qkv[0], qkv[1], qkv[2], where, bias, backend=backend)
            else:
                y = attend(qkv[0], qkv[1], qkv[2], where, bias, backend=backend)
                got = torch.autograd.grad((y * direction).sum(), [*qkv, *weights], retain_graph=True)
                for ours, theirs in zip(got, wanted):
                    assert relative(ours, theirs) <= 2 * tolerance, (backend, dtype)
            assert y.dtype == dtype
            assert relative(y, expected) <= tolerance, (backend, dtype)
            if where.valid is not None:
                assert bool((y.transpose(1, 2)[~where.valid] == 0).all())


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("kind", ["none", "cone", "quadratic, features", "sum"])
def test_autocast_does_not_reach_into_the_kernels(kind: str, backend: str) -> None:
    where = places("padded, unplaced", torch.float32)
    q, k, v = (torch.randn(3, HEADS, 16, WIDTH) for _ in range(3))
    bias = make(kind, where, torch.float32)[0]
    with torch.no_grad():
        plain = attend(q, k, v, where, bias, backend=backend)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(attend(q, k, v, where, bias, backend=backend), plain)


@pytest.mark.parametrize("layout", ["plain", "padded, unplaced", "packed, padded, unplaced"])
@pytest.mark.parametrize("kind", ["none", "tables", "quadratic", "sum", "rows only"])
def test_dense_in_chunks_equals_dense_at_once(kind: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = places(layout, torch.float64)
    qkv = [torch.randn(3, HEADS, 16, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    bias, _, weights = make(kind, where, torch.float64)
    results, rows = [], []
    inner = dense_module.logits
    monkeypatch.setattr(dense_module, "logits", lambda *a: rows.append(a[-1] - a[-2]) or inner(*a))
    for chunk in (2**23, 3 * HEADS * 16 * 5, 1):  # all, five rows or more, one row
        monkeypatch.setattr(dense_module, "CHUNK", chunk)
        rows.clear()
        y = attend(qkv[0], qkv[1], qkv[2], where, bias, backend="dense")
        grads = torch.autograd.grad(y.square().sum(), [*qkv, *weights])
        results.append((y, *grads))
        assert (max(rows) == 1) == (chunk == 1)
    assert all(relative(a, b) < 1e-13 for r in results[1:] for a, b in zip(r, results[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_output_is_as_wide_as_v(backend: str) -> None:
    where = places("padded", torch.float32)
    for wide, narrow in [(8, 4), (4, 8), (20, 6), (6, 20), (24, 24), (9, 9)]:
        q, k = torch.randn(3, HEADS, 16, wide), torch.randn(3, HEADS, 16, wide)
        v = torch.randn(3, HEADS, 16, narrow)
        bias, values, _ = make("distance", where, torch.float32)
        y = attend(q, k, v, where, bias, scale=wide**-0.5, backend=backend)
        assert y.shape == v.shape
        assert relative(y, by_hand(q, k, v, where, values)) < 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
def test_scale_is_given_or_one_over_the_root_of_the_heads_width(backend: str) -> None:
    """The head is as wide as v, whatever rides on q and k."""
    where = places("plain", torch.float32)
    q, k, v = torch.randn(3, HEADS, 16, 20), torch.randn(3, HEADS, 16, 20), torch.randn(3, HEADS, 16, WIDTH)
    plain = attend(q, k, v, where, backend=backend)
    assert torch.equal(plain, attend(q, k, v, where, scale=WIDTH**-0.5, backend=backend))
    doubled = attend(q, k, v, where, scale=2 * WIDTH**-0.5, backend=backend)
    torch.testing.assert_close(doubled, attend(2 * q, k, v, where, backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bias_may_handle_unplaced_tokens_itself(backend: str) -> None:
    where = places("unplaced", torch.float32)
    values = torch.randn(3, HEADS, 16, 16)
    q, k, v = (torch.randn(3, HEADS, 16, WIDTH) for _ in range(3))
    bias = PairOnly(values)
    masked = attend(q, k, v, where, bias, backend=backend)
    bias.handles_unplaced = True
    everywhere = attend(q, k, v, Where(where.positions), PairOnly(values), backend=backend)
    torch.testing.assert_close(attend(q, k, v, where, bias, backend=backend), everywhere)
    assert not torch.allclose(masked, everywhere)

    bias.placed = where.placed  # then one that does not may stand beside it, and gives unplaced tokens nothing
    both = attend(q, k, v, where, SumBias([bias, PairOnly(values)]), backend=backend)
    assert where.placed is not None
    seen = (where.placed[:, :, None] & where.placed[:, None])[:, None]
    summed = attend(q, k, v, Where(where.positions), PairOnly(values + values * seen), backend=backend)
    torch.testing.assert_close(both, summed)


# ---------------------------------------------------------------------------------------------------- errors


def test_unknown_backends_are_named_with_the_nearest_known() -> None:
    where = places("plain", torch.float32)
    q = torch.randn(3, HEADS, 16, WIDTH)
    with pytest.raises(ValueError, match=r"called 'spda', did you mean 'sdpa'\? Backends: auto, dense, sdpa, flex"):
        attend(q, q, q, where, backend="spda")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_flex_says_that_it_has_no_gradients_on_cpu_and_what_to_take(which: int) -> None:
    where = places("plain", torch.float32)
    qkv = [torch.randn(3, HEADS, 16, WIDTH) for _ in range(3)]
    qkv[which].requires_grad_()
    with pytest.raises(RuntimeError, match=r"gradients on a CPU. Use backend 'sdpa' or 'dense', or torch.no_grad\(\)"):
        attend(qkv[0], qkv[1], qkv[2], where, backend="flex")
    with torch.no_grad():
        attend(qkv[0], qkv[1], qkv[2], where, backend="flex")


@pytest.mark.parametrize("summed", [False, True])
def test_flex_says_that_it_cannot_take_whole_rows(summed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", False)
    where = places("plain", torch.float32)
    q = torch.randn(3, HEADS, 16, WIDTH)
    bias: Bias = RowsOnly(torch.zeros(3, HEADS, 16, 16))
    if summed:
        bias = SumBias([DistanceBias(torch.ones(HEADS), where.positions), bias])
    with pytest.raises(TypeError, match="backend 'flex' requires a bias with pair"):
        attend(q, q, q, where, bias, backend="flex")


def test_a_bias_that_writes_nothing_is_told_what_to_write() -> None:
    class Nothing(Bias):
        def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return torch.zeros(())

    with pytest.raises(TypeError, match=r"Nothing must implement rows\(\)"):
        Nothing().rows(0, 1)


# ---------------------------------------------------------------------------------------------------- the choice


def query(tokens: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Any:
    said = dict(shape=(1, 4, tokens, 64), dtype=dtype, device=torch.device(device), requires_grad=False)
    return SimpleNamespace(**said, data_ptr=lambda: 0)


@pytest.mark.parametrize(
    "tokens, dtype, device, layout, kind, chosen",
    [
        (1024, torch.float32, "cpu", "plain", "none", "sdpa"),
        (8192, torch.float32, "cpu", "plain", "none", "sdpa"),
        (1024, torch.float32, "cpu", "plain", "distance", "sdpa"),
        (8192, torch.float32, "cpu", "plain", "distance", "dense"),  # 4 x 8192^2 logits at once would be 1 GiB
        (8192, torch.bfloat16, "cpu", "plain", "distance", "dense"),
        (8192, torch.float32, "cpu", "plain", "features", "sdpa"),
        (8192, torch.bfloat16, "cpu", "plain", "features", "sdpa"),
        (8192, torch.float64, "cpu", "plain", "features", "dense"),
        (1024, torch.float64, "cpu", "plain", "features", "sdpa"),
        (8192, torch.float32, "cpu", "packed", "distance", "sdpa"),  # cut into rows of 64
        (8192, torch.float32, "cpu", "packed", "none", "sdpa"),
        (8192, torch.float32, "cpu", "one segment", "distance", "dense"),
        (8192, torch.float32, "cpu", "one segment", "none", "sdpa"),
        (8192, torch.float32, "cpu", "uncut", "none", "dense"),  # made inside a graph: the mask is N x N
        (1024, torch.float32, "cpu", "uncut", "none", "sdpa"),
        (1024, torch.float32, "cuda", "plain", "none", "sdpa"),
        (8192, torch.float32, "cuda", "plain", "none", "sdpa"),
        (1024, torch.bfloat16, "cuda", "plain", "distance", "fused"),
        (1024, torch.float32, "cuda", "plain", "features", "fused"),
        (1024, torch.bfloat16, "cuda", "uncut", "none", "fused"),
        (1024, torch.float32, "cpu", "plain", "rows only", "sdpa"),
        (2048, torch.float32, "cpu", "plain", "distance", "sdpa"),
        (2048, torch.float32, "cpu", "plain", "rows only", "dense"),  # what makes it is as large several times over
        (1024, torch.float32, "cuda", "plain", "rows only", "dense"),
        (1024, torch.float32, "cuda", "plain", "sum with rows only", "dense"),
        (1024, torch.bfloat16, "cuda", "plain", "table", "sdpa"),
        (8192, torch.bfloat16, "cuda", "plain", "table", "dense"),  # FlexAttention's gradient of a table is slow
        (8192, torch.bfloat16, "cuda", "plain", "sum with table", "dense"),
        (8192, torch.bfloat16, "cuda", "plain", "cone", "flex"),
        (8192, torch.bfloat16, "cuda", "uncut", "table", "flex"),  # a mask would be of all samples
        (1024, torch.float64, "cuda", "plain", "distance", "sdpa"),
        (8192, torch.float64, "cuda", "plain", "distance", "dense"),
    ],
)
def test_auto_takes(
    tokens: int, dtype: torch.dtype, device: str, layout: str, kind: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_module, "TRITON", True)
    r = torch.zeros(1, tokens, 1)
    segments = torch.zeros(1, tokens, dtype=torch.int64)
    if layout == "packed":
        segments = torch.arange(tokens)[None] // 64
    where = Where(r) if layout == "plain" else Where(r, segment=segments)
    if layout == "uncut":
        object.__setattr__(where, "cut", None)
    biases: dict[str, Bias | None] = {
        "none": None,
        "distance": DistanceBias(torch.ones(4), r),
        "features": IsotropicBias(torch.zeros(1, 4, tokens), r, local=single_block(r)),
        "rows only": RowsOnly(torch.zeros(())),
        "table": (table := TableBias([torch.zeros(4, 3)], [1], r)),
        "sum with table": SumBias([DistanceBias(torch.ones(4), r), table]),
        "cone": ConeBias(torch.ones(4, 1), torch.ones(4), r),
        "sum with rows only": SumBias([DistanceBias(torch.ones(4), r), RowsOnly(torch.zeros(()))]),
    }
    q = query(tokens, dtype, device)
    assert choose(q, q, q, where, biases[kind]).name == chosen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_a_backend_computes_what_it_serves_and_refuses_the_rest(name: str, kind: str) -> None:
    """Gradients on a CPU, a bias without pair(), unplaced tokens: whatever stands in the way, serves() says it."""
    said = set()
    for layout in ("plain", "unplaced", "packed"):
        where = places(layout, torch.float32)
        for learned in (False, True):
            q = torch.randn(3, HEADS, 16, WIDTH, requires_grad=learned)
            bias = make(kind, where, torch.float32)[0]
            with torch.set_grad_enabled(learned):
                said.add(ALL[name].serves(q, q, q, where, bias))
                if ALL[name].serves(q, q, q, where, bias):
                    attend(q, q, q, where, bias, backend=name)
                else:
                    with pytest.raises((TypeError, ValueError, RuntimeError), match=rf"backend '{name}'.* (take|Use) "):
                        attend(q, q, q, where, bias, backend=name)
    parabolas = kind.startswith(("quadratic", "isotropic"))
    all_of_it = name in ("dense", "sdpa") or (name == "select" and parabolas)
    all_of_it = all_of_it or (name == "fused" and (parabolas or kind in ("none", "distance")))
    assert said == {True} if all_of_it else False in said


def test_auto_asks_the_most_special_first_and_the_reference_last() -> None:
    assert [backend.name for backend in AUTO] == ["select", "narrow", "varlen", "fused", "flex", "sdpa", "dense"]
    assert [backend.name for backend in AUTO if backend.packed] == ["varlen", "fused", "flex"]  # the others get samples
    assert all(type(backend).__doc__ for backend in AUTO)


@pytest.mark.parametrize("kind", ["distance", "quadratic", "tables"])
def test_a_bias_too_large_to_be_whole_is_computed_in_chunks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = places("padded", torch.float32)
    q, k, v = (torch.randn(3, HEADS, 16, WIDTH) for _ in range(3))
    bias = make(kind, where, torch.float32)[0]
    expected = attend(q, k, v, where, bias, backend="dense")
    called = spy(monkeypatch, dense_module.Dense, "__call__")
    attend(q, k, v, where, bias)
    assert called == []
    monkeypatch.setattr(sdpa_module, "MASK", 3 * HEADS * 16 * 16 - 1)
    assert torch.equal(attend(q, k, v, where, bias), expected)
    assert len(called) == 1
