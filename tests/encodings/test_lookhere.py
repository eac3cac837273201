"""LookHere looks where its authors drew it, and the same way in any number of dimensions."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.tokens import Where

Make = Callable[..., Any]
EVERYWHERE = [0.25, 0.0625, 0.015625, 0.00390625]


def grid(height: int, width: int) -> Tensor:
    """(1, height * width, 2) of (y, x), row by row."""
    return torch.cartesian_prod(torch.arange(height), torch.arange(width)).double()[None]


def published_heads(fov: int, positions: Tensor) -> list[tuple[Tensor, float]]:
    """The twelve heads as (what a query sees (N, N), slope)."""
    dy, dx = (positions[0] - positions[0][:, None]).unbind(-1)  # key minus query; y grows downwards
    up, down, left, right = dy <= 0, dy >= 0, dx <= 0, dx >= 0
    tri_up, tri_down = dx.abs() <= -dy, dx.abs() <= dy
    tri_left, tri_right = dy.abs() <= -dx, dy.abs() <= dx
    halves = [up, down, left, right]
    corners = [up & left, up & right, down & left, down & right]
    triangles = [tri_up, tri_down, tri_left, tri_right]
    eighths1 = [tri_up & left, tri_down & left, tri_left & up, tri_right & up]
    eighths2 = [tri_up & right, tri_down & right, tri_left & down, tri_right & down]
    looking = {
        180: [(view, 1 / 2) for view in halves] + [(view, 1 / 4) for view in halves],
        90: [(view, 1 / 2) for view in corners + triangles],
        45: [(view, 1 / 2) for view in eighths1 + eighths2],
    }[fov]
    return looking + [(torch.ones_like(up), slope) for slope in EVERYWHERE]


@pytest.mark.parametrize("index, depth, layer_slope", [(0, 12, 1.5), (3, 12, 1.5 - 3 / 11), (11, 12, 0.5), (0, 1, 1.5)])
@pytest.mark.parametrize("size", [(8, 8), (6, 9)])
@pytest.mark.parametrize("fov", [180, 90, 45])
def test_the_heads_are_those_published(
    fov: int, size: tuple[int, int], index: int, depth: int, layer_slope: float, make: Make
) -> None:
    model = make(dict(type="LookHere", fov=fov), 2, heads=12, width=4, index=index, depth=depth).double()
    positions = grid(*size)
    actual = list(model.bias(torch.zeros(1, positions.shape[1], model.dim).double(), Where(positions))[0])
    distance = torch.cdist(positions, positions)[0]
    for view, slope in published_heads(fov, positions):
        expected = torch.where(view, -layer_slope * slope * distance, -math.inf)
        same = [n for n, head in enumerate(actual) if torch.allclose(head, expected, rtol=0, atol=1e-12)]
        assert same, f"no head, or one too few, sees {int(view.sum())} pairs with slope {slope}"
        del actual[same[0]]
    assert not actual


@pytest.mark.parametrize("far", [1, 40])
@pytest.mark.parametrize("fov", [180, 90, 45])
def test_views_close_at_the_lattice_however_large_the_image_is(fov: int, far: int, make: Make) -> None:
    """The keys of an edge are inside, the keys next to them outside, also in float32 and 1000 steps away."""
    model = make(dict(type="LookHere", fov=fov), 2, heads=12, width=4)
    spots = torch.tensor([[0, 0], *[[a, b] for a in range(-25, 26, 5) for b in range(-25, 26, 5)]]) * far
    nearby = torch.tensor([[25 * far, 25 * far - 1], [-25 * far, 1 - 25 * far], [1, 25 * far], [-25 * far, 1]])
    positions = torch.cat([spots, nearby]).float()[None]
    seen = model.bias(torch.zeros(1, positions.shape[1], model.dim), Where(positions))[0].isfinite()
    expected = torch.stack([view for view, _ in published_heads(fov, positions.double())])
    assert sorted(seen[:, 0].tolist()) == sorted(expected[:, 0].tolist())


@pytest.mark.parametrize(
    "dims, fov, heads",
    [
        (1, 180, 6),
        (1, 45, 6),
        (2, 180, 6),
        (2, 90, 6),
        (2, 45, 12),
        (3, 180, 9),
        (3, 90, 20),
        (4, 180, 12),
        (4, 90, 36),
    ],
)
def test_the_heads_that_look_one_way_together_look_every_way(dims: int, fov: int, heads: int, make: Make) -> None:
    model = make(dict(type="LookHere", fov=fov), dims, heads=heads, width=1).double()
    around = torch.randn(1, 300, dims).double()
    around[:, 0] = 0
    seen = model.bias(torch.zeros(1, 300, model.dim).double(), Where(around))[0, :, 0].isfinite()  # (H, keys)
    one_way = seen[~seen.all(dim=1)]
    assert len(one_way) >= heads - heads // 3
    assert one_way.any(dim=0).all()


@pytest.mark.parametrize("index", [0, 3])
def test_the_paper_repository_has_one_steep_slope_in_all_layers(index: int, make: Make) -> None:
    positions = grid(4, 4)
    x = torch.zeros(1, 16, 24).double()
    repo = make(dict(type="LookHere", preset="pape_repo"), 2, heads=12, width=2, index=index).double()
    first = make(dict(type="LookHere"), 2, heads=12, width=2, index=0).double()  # 1.5, where the repository has 2 x 1.5
    assert torch.allclose(repo.bias(x, Where(positions)), 2 * first.bias(x, Where(positions)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads, everywhere", [(3, 1), (8, 2), (12, 4), (16, 4), (24, 8)])
def test_four_of_twelve_heads_see_all_keys(heads: int, everywhere: int, make: Make) -> None:
    model = make(dict(type="LookHere"), 2, heads=heads, width=2)
    bias = model.bias(torch.zeros(1, 9, model.dim), Where(grid(3, 3).float()))[0]
    assert int(bias.isfinite().all(-1).all(-1).sum()) == everywhere
