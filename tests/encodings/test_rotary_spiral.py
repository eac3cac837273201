"""Spiral RoPE: how far a table that its authors' code interpolates is from the formula (docs/reference/encodings)."""

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.attention import build_encoding

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "encodings" / "rotary.md"
PATCHES, WIDTH = 14, 64  # of a row, and of a head
MIDDLE = (PATCHES - 1) / 2


def interpolated_angles(table: Tensor, degrees: float) -> Tensor:
    """The angles (n, n) of a table rotated about its middle: bilinear, and those of the border outside of it."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, PATCHES, dtype=torch.float64)] * 2, indexing="ij")
    grid = torch.stack([cos * x - sin * y, sin * x + cos * y], -1)
    return F.grid_sample(table[None, None], grid[None], padding_mode="border", align_corners=True)[0, 0]


def test_the_page_states_how_far_the_table_is_from_the_formula() -> None:
    cfg = dict(type="RotaryND", preset="spiral")
    encoding: Any = build_encoding(cfg, dim=WIDTH, heads=1, position_dims=2, depth=1)
    frequencies = encoding.position_scale[0] * encoding.frequencies()[0].unflatten(0, (4, -1))  # (directions, pairs, 2)
    y, x = torch.meshgrid(*[torch.arange(PATCHES).double() - MIDDLE] * 2, indexing="ij")
    errors, outside = [], []
    for k, (axis, degrees) in enumerate([(y, 0), (y, 45), (x, 0), (x, 45)]):
        for w in frequencies[k]:
            exact = w[0] * y + w[1] * x
            error = (interpolated_angles(w.norm() * axis, degrees) - exact).abs()
            along = exact / w.norm()  # the coordinate in this direction
            is_outside = along.abs() > MIDDLE + 1e-9
            assert error[~is_outside].max() < 1e-9
            errors.append(error.max().item())
            outside.append((is_outside.double().mean().item(), (along.abs().max() - MIDDLE).item()))
    diagonal = [pair for k in (1, 3) for pair in outside[8 * k : 8 * k + 8]]
    assert len({(round(share, 9), round(distance, 9)) for share, distance in diagonal}) == 1
    share, distance = diagonal[0]
    assert max(errors[:8] + errors[16:24]) < 1e-9  # along the axes
    text = " ".join(PAGE.read_text().split())
    assert f"Of 14 x 14 patches, {100 * share:.0f} % are outside of it" in text
    assert f"by up to {distance:.1f} units" in text
    assert f"off by up to {max(errors):.1f} radians" in text


def test_frequencies_are_dealt_out_as_in_the_authors_code() -> None:
    """Of each four of width / 4 frequencies 1.5 * 10000^(-j / 16), two are on the axes and two on the diagonals."""
    cfg = dict(type="RotaryND", preset="spiral")
    encoding: Any = build_encoding(cfg, dim=WIDTH, heads=1, position_dims=2, depth=1)
    sizes = 1.5 * encoding.frequencies()[0].norm(dim=1).view(4, 8)
    every = [1.5 * 10000 ** (-j / 16) for j in range(16)]
    axes, diagonals = ([every[4 * i + j] for i in range(4) for j in own] for own in ((0, 1), (2, 3)))
    expected = torch.tensor([axes, diagonals, axes, diagonals]).double()
    torch.testing.assert_close(sizes, expected, rtol=1e-6, atol=0)
