"""Reductions over runs of consecutive rows."""

import sys
import types
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.sparse import reduce_segments, segments
from ndformer.framework.sparse.segments import run_lengths

HOW: list[Literal["sum", "mean", "max"]] = ["sum", "mean", "max"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from(HOW))
def test_each_run_by_itself(lengths: list[int], how: Literal["sum", "mean", "max"]) -> None:
    x = torch.randn(sum(lengths), 3, dtype=torch.float64) - 5  # all below 0: no maximum is 0
    parts = x.split(lengths)
    expected = torch.stack([p.amax(0) if how == "max" else getattr(p, how)(0) for p in parts])
    torch.testing.assert_close(reduce_segments(x, torch.tensor(lengths), how), expected)


@pytest.mark.parametrize("how", HOW)
def test_gradients(how: Literal["sum", "mean", "max"]) -> None:
    x = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: reduce_segments(x, torch.tensor([3, 1, 3]), how), x)


def test_rows_that_share_the_maximum_share_its_gradient() -> None:
    x = torch.tensor([[1.0], [1.0], [0.0], [2.0]], requires_grad=True)
    reduce_segments(x, torch.tensor([3, 1]), "max").sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [0.5, 0.5, 0.0, 1.0]


def test_torch_scatter_gives_the_same_values() -> None:
    scatter = pytest.importorskip("torch_scatter")
    x, lengths = torch.randn(9, 2), torch.tensor([4, 1, 4])
    for how in HOW:
        ends = torch.tensor([0, 4, 5, 9])
        torch.testing.assert_close(reduce_segments(x, lengths, how), scatter.segment_csr(x, ends, reduce=how))


def test_torch_scatter_gets_the_same_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stub of torch-scatter, and a tensor that claims to be on a GPU."""

    class Far(torch.Tensor):
        is_cuda = True  # pyright: ignore[reportAssignmentType]

    def segment_csr(x: torch.Tensor, ends: torch.Tensor, reduce: str) -> torch.Tensor:
        assert isinstance(x, Far)
        parts = [x[lo:hi].as_subclass(torch.Tensor) for lo, hi in zip(ends[:-1], ends[1:])]
        return torch.stack([part.amax(0) if reduce == "max" else getattr(part, reduce)(0) for part in parts])

    package = types.ModuleType("torch_scatter")
    package.segment_csr = segment_csr  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "torch_scatter", package)
    segments.torch_scatter.cache_clear()
    x, lengths = torch.randn(9, 2), torch.tensor([4, 1, 4])
    for how in HOW:
        torch.testing.assert_close(reduce_segments(x.as_subclass(Far), lengths, how), reduce_segments(x, lengths, how))
    monkeypatch.setitem(sys.modules, "torch_scatter", None)  # not installed
    segments.torch_scatter.cache_clear()
    assert segments.torch_scatter() is None
    segments.torch_scatter.cache_clear()


def test_runs_of_a_sorted_list() -> None:
    run, lengths = run_lengths(torch.tensor([2, 2, 5, 7, 7, 7]))
    assert run.tolist() == [0, 0, 1, 2, 2, 2]
    assert lengths.tolist() == [2, 1, 3]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_means_of_many_numbers_of_16_bits_are_exact(dtype: torch.dtype) -> None:
    lengths = torch.tensor([4000, 2])
    means = reduce_segments(torch.ones(4002, 1, dtype=dtype), lengths, "mean")
    assert (means.dtype, means.tolist()) == (dtype, [[1.0], [1.0]])
    assert reduce_segments(torch.ones(4002, 1, dtype=dtype), lengths, "sum").tolist() == [[4000.0], [2.0]]
