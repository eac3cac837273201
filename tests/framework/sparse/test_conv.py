"""Submanifold convolution equals conv3d over a volume that is 0 without points."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.sparse import Sites, SubMConv3d, sites, spconv


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def occupied(samples: int = 2, size: int = 6, share: float = 0.3) -> Tensor:
    """Return sample, x, y and z (N, 4) of random voxels in random order."""
    index = (torch.rand(samples, size, size + 1, size + 2) < share).nonzero()
    return index[torch.randperm(len(index))]


def dense(conv: SubMConv3d, weight: Tensor, x: Tensor, index: Tensor) -> Tensor:
    shape = (index.amax(0) + 1).tolist()
    volume = torch.zeros(*shape, x.shape[1], dtype=x.dtype).index_put(tuple(index.T), x)
    out = F.conv3d(
        volume.permute(0, 4, 1, 2, 3), weight.permute(0, 4, 1, 2, 3), conv.bias, padding=conv.kernel // 2
    )  # (B, D, X, Y, Z)
    return out.permute(0, 2, 3, 4, 1)[tuple(index.T)]


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("block", [7, 8192])
def test_it_is_conv3d_at_the_occupied_voxels(
    kernel: int, block: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "BLOCK", block)
    index = occupied()
    conv = SubMConv3d(4, 5, kernel).double()
    x, weight = torch.randn(len(index), 4).double().requires_grad_(), conv.weight.detach().clone().requires_grad_()
    other = x.detach().clone().requires_grad_()

    y = conv(x, Sites(index[:, 1:] - 3, index[:, 0]))  # where the origin is does not matter
    expected = dense(conv, weight, other, index)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-10)

    back = torch.randn_like(y)
    y.backward(back)
    expected.backward(back)
    assert x.grad is not None
    assert conv.weight.grad is not None
    torch.testing.assert_close(x.grad, other.grad, rtol=0, atol=1e-10)
    torch.testing.assert_close(conv.weight.grad, weight.grad, rtol=0, atol=1e-10)


def test_layers_of_one_kernel_size_share_a_table() -> None:
    index = occupied()
    place = Sites(index[:, 1:], index[:, 0])
    first = place.table(3)
    SubMConv3d(4, 4)(torch.randn(len(index), 4), place)
    assert place.table(3) is first
    assert place.table(5) is not first


def test_a_lone_point_sees_itself() -> None:
    conv: Any = SubMConv3d(4, 5)
    x = torch.randn(1, 4)
    torch.testing.assert_close(
        conv(x, Sites(torch.tensor([[7, 8, 9]]), torch.tensor([0]))), x @ conv.weight[:, 1, 1, 1].T + conv.bias
    )


def slow(conv: Any, x: Tensor, index: Tensor) -> Tensor:
    """Compute the formula of the docstring point by point."""
    out = []
    for n, voxel in enumerate(index.tolist()):
        y = conv.bias + conv.weight[:, 1, 1, 1] @ x[n]
        for d in range(27):
            dx, dy, dz = d // 9 - 1, d // 3 % 3 - 1, d % 3 - 1
            there = [voxel[0], voxel[1] + dx, voxel[2] + dy, voxel[3] + dz]
            mates = (index == torch.tensor(there)).all(1)
            if d != 13 and mates.any():
                y = y + conv.weight[:, dx + 1, dy + 1, dz + 1] @ x[mates].mean(0)
        out.append(y)
    return torch.stack(out)


def test_points_of_one_voxel_see_themselves_and_are_seen_as_their_mean() -> None:
    index = torch.randint(0, 3, (40, 4))
    index[:, 0] %= 2
    assert len(index.unique(dim=0)) < len(index)
    conv = SubMConv3d(3, 2).double()
    x = torch.randn(40, 3, dtype=torch.float64, requires_grad=True)
    place = Sites(index[:, 1:], index[:, 0])
    torch.testing.assert_close(conv(x, place), slow(conv, x, index))
    assert torch.autograd.gradcheck(
        lambda x, w: torch.func.functional_call(conv, {"weight": w}, (x, place)), (x, conv.weight)
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_the_order_of_points_changes_nothing(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, 4, (30, 4), generator=generator)
    x = torch.randn(30, 3, generator=generator, dtype=torch.float64)
    turned = torch.randperm(30, generator=generator)
    conv = SubMConv3d(3, 2).double()
    y = conv(x, Sites(index[:, 1:], index[:, 0]))
    torch.testing.assert_close(conv(x[turned], Sites(index[turned, 1:], index[turned, 0])), y[turned])


def test_autocast_computes_in_16_bit() -> None:
    index = occupied()
    place, conv, x = Sites(index[:, 1:], index[:, 0]), SubMConv3d(8, 8), torch.randn(len(index), 8)
    with torch.autocast("cpu", torch.bfloat16):
        y = conv(x, place)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), conv(x, place), rtol=0.05, atol=0.05)
    y.float().sum().backward()
    assert conv.weight.grad is not None
    assert conv.weight.grad.dtype == torch.float32


def test_wrong_shapes_are_reported() -> None:
    index = occupied()
    place = Sites(index[:, 1:], index[:, 0])
    with pytest.raises(ValueError, match="features must have .* rows, one per point"):
        SubMConv3d(4, 4)(torch.randn(3, 4), place)
    with pytest.raises(ValueError, match="odd and at least 3"):
        SubMConv3d(4, 4, kernel=2)
    with pytest.raises(DataError, match="voxel grids must have less than"):
        Sites(torch.tensor([[0, 0, 0], [2**21, 2**21, 2**21]]), torch.zeros(2))


# ---------------------------------------------------------------------------------------------------- spconv


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A stub of the package spconv."""
    package, pytorch, constants = (types.ModuleType(f"spconv{end}") for end in ("", ".pytorch", ".cppconstants"))
    constants.CPU_ONLY_BUILD = True  # pyright: ignore[reportAttributeAccessIssue]
    for module in (package, pytorch, constants):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spconv.build.cache_clear()
    yield constants
    spconv.build.cache_clear()


def test_spconvs_cpu_build_is_refused_by_name(stand_in: types.ModuleType) -> None:
    assert not spconv.chosen("auto", torch.device("cuda"))
    with pytest.raises(ImportError, match="CPU build.*convolution is wrong"):
        spconv.chosen("spconv", torch.device("cuda"))


def test_spconvs_cuda_build_is_for_tensors_on_a_gpu(stand_in: types.ModuleType) -> None:
    stand_in.CPU_ONLY_BUILD = False  # pyright: ignore[reportAttributeAccessIssue]
    assert spconv.chosen("auto", torch.device("cuda"))
    assert not spconv.chosen("auto", torch.device("cpu"))
    assert not spconv.chosen("torch", torch.device("cuda"))
    with pytest.raises(RuntimeError, match="requires tensors on a GPU, got cpu"):
        spconv.chosen("spconv", torch.device("cpu"))


def test_a_missing_spconv_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spconv", None)
    monkeypatch.setitem(sys.modules, "spconv.pytorch", None)
    spconv.build.cache_clear()
    with pytest.raises(ImportError, match="cannot be imported"):
        spconv.chosen("spconv", torch.device("cuda"))
    spconv.build.cache_clear()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("twice", [0, 20])
def test_spconv_gives_the_same(kernel: int, twice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its exact CPU algorithm; `twice` is the number of voxels with a second point."""
    pytorch = pytest.importorskip("spconv.pytorch")
    native = pytest.importorskip("spconv.core").ConvAlgo.Native
    if spconv.build()[0] is None:
        pytest.skip("the CPU build")
    layer = pytorch.SubMConv3d
    monkeypatch.setattr(pytorch, "SubMConv3d", lambda *a, **k: layer(*a, **k, algo=native))
    monkeypatch.setattr(spconv, "chosen", lambda backend, device: backend == "spconv")
    spconv.template.cache_clear()
    index = occupied(size=9)
    index = torch.cat([index, index[:twice]])
    conv, x, back = SubMConv3d(8, 12, kernel), torch.randn(len(index), 8), torch.randn(len(index), 12)
    results = []
    for conv.backend in ("torch", "spconv"):
        own = x.clone().requires_grad_()
        y = conv(own, Sites(index[:, 1:], index[:, 0]))
        results.append([y, *torch.autograd.grad(y, [own, conv.weight], back)])
    spconv.template.cache_clear()
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-5)
