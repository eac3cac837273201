"""What encodings promise about moves, turns and distance, and about samples that share a batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import Where
from tests.encodings.references.all import CASES as ALL
from tests.encodings.references.all import allows, needs_grid

CASES = {name: cfg for name, cfg in ALL.items() if not {"impl", "joint"} & set(cfg)}
GRIDS = {1: (8,), 2: (2, 4), 3: (2, 2, 2), 4: (1, 2, 2, 2)}


def allowed_dims(cfg: dict[str, Any], max_dims: int = 4) -> list[int]:
    return [dims for dims in range(1, max_dims + 1) if allows(cfg, dims)]


def declared(name: str) -> Any:
    """An encoding, to be asked what it declares: in two dimensions, where that can be."""
    cfg = CASES[name]
    dims = 2 if allows(cfg, 2) else allowed_dims(cfg)[0]
    return build_encoding(cfg, dim=72, heads=3, position_dims=dims, depth=4)


few = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)
Make = Callable[..., Any]


def difference(a: Tensor, b: Tensor) -> float:
    """The largest change of a logit; infinite where a key came into view or left it."""
    return torch.where(a == b, 0.0, (a - b).abs()).max().item()


def placed_logits(model: Any, x: Tensor, positions: Tensor) -> Tensor:
    """Logits between all tokens but the first, which has no place of its own."""
    grid = GRIDS[model.dims] if needs_grid(model.cfg) else None
    where = Where(positions, placed=torch.arange(positions.shape[1])[None] > 0, grid=grid)
    with torch.no_grad():
        return model.logits(x, where)[:, :, 1:, 1:]


def random_inputs(model: Any, seed: int, tokens: int = 9) -> tuple[Tensor, Tensor]:
    """Features, and positions half of which stand on the lattice, where a cone's edge passes through keys."""
    torch.manual_seed(seed)
    positions = torch.rand(1, tokens, model.dims).double() * 8
    positions[:, ::2] = positions[:, ::2].round()
    if not model.encoding.float_positions:
        positions = positions.round()
    if needs_grid(model.cfg):
        positions[0, 1:] = torch.cartesian_prod(*[torch.arange(n).double() for n in GRIDS[model.dims]]).view(8, -1)
    return torch.randn(1, tokens, model.dim).double(), positions


def rotation(dims: int, seed: int) -> Tensor:
    torch.manual_seed(seed)
    q = torch.linalg.qr(torch.randn(dims, dims).double()).Q
    q[:, 0] *= q.det().sign()
    return q


STEPPED = {
    **{name: cfg for name, cfg in CASES.items() if cfg["type"] in ("RelativeBias", "Relative")},
    "Relative-euclidean": dict(type="Relative", method="euclidean"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", STEPPED)
def test_a_step_that_scales_to_a_half_has_one_value_wherever_it_is(name: str, dtype: torch.dtype, make: Make) -> None:
    """Issue 44.19: at a scale of 0.1, steps of 5, 15, 25 ... had two values, and a move by 7 changed some of them."""
    model = make(STEPPED[name] | dict(position_scale=0.1), 2).to(dtype)
    r = torch.cartesian_prod(torch.arange(5.0), torch.arange(8.0))[None] * 5
    x = torch.randn(1, 1, model.dim, dtype=dtype).expand(-1, r.shape[1], -1)
    with torch.no_grad():
        logits = model.logits(x, Where(r))
        moved = torch.cat([model.logits(x, Where(r + shift)) for shift in (7, 1003, 30_001)])
    assert difference(logits, moved) <= 1e-5
    between = logits[0].unflatten(1, (5, 8)).unflatten(3, (5, 8))  # (H, row, column, row, column)
    for step in range(1, 8):  # along a row
        values = between.diagonal(step, 2, 4).diagonal(0, 1, 2)
        assert (values - values[:, :1, :1]).abs().max() <= 1e-5
    assert (logits[0, :, 0, 1] - logits[0, :, 0, 4]).abs().max() > 1e-4  # and steps differ


@pytest.mark.parametrize("name, dims", [(name, dims) for name in CASES for dims in allowed_dims(CASES[name])])
def test_the_declared_invariances_are_those_measured(name: str, dims: int, make: Make) -> None:
    model = make(CASES[name], dims, width=24).double()
    x, positions = random_inputs(model, seed=1)
    if not model.encoding.float_positions:
        positions = positions * 0.7  # what is rounded is between whole steps, and at a half of one
    logits = placed_logits(model, x, positions)
    moved = difference(logits, placed_logits(model, x, positions + 3.3))
    undone = needs_grid(CASES[name]) or getattr(model.encoding, "normalize", None)  # cells are counted, places measured
    if not undone or model.encoding.translation_invariant:
        assert (moved <= 1e-9) if model.encoding.translation_invariant else (moved > 1e-3)
    if dims > 1 and not needs_grid(CASES[name]):  # on a line there is nothing to turn; a turned grid is none
        turned = difference(logits, placed_logits(model, x, positions @ rotation(dims, seed=2).T))
        assert (turned <= 1e-9) if model.encoding.rotation_invariant else (turned > 1e-3)


@pytest.mark.parametrize("width, dims", [(64, 3), (64, 2), (20, 4)])
def test_the_paper_repositorys_rope_loses_invariance_where_it_cuts_its_padding(
    width: int, dims: int, make: Make
) -> None:
    model = make(dict(type="AxialRoPE", preset="pape_repo"), dims, heads=1, width=width).double()
    x, positions = random_inputs(model, seed=1)
    moved = difference(placed_logits(model, x, positions), placed_logits(model, x, positions + 1000))
    assert model.encoding.translation_invariant == (width % (2 * dims) == 0)
    assert (moved <= 1e-9) if model.encoding.translation_invariant else (moved > 1e-3)


@pytest.mark.parametrize("name", ["ALiBi", "LookHere", "RelativeBias", "PaPE", "PaPERI"])
def test_the_bias_asks_the_tokens_only_where_declared(name: str, make: Make) -> None:
    model = make(CASES[name], 2).double()
    x, positions = random_inputs(model, seed=1)
    changed = difference(model.bias(x, Where(positions)), model.bias(2 * x, Where(positions)))
    assert (changed > 1e-3) == model.encoding.content_dependent


@pytest.mark.parametrize("cfg", [CASES["ALiBi"], CASES["PaPERI"], CASES["PaPE"] | dict(direction=False)])
@given(dims=st.integers(1, 4), seed=seeds)
@few
def test_attention_falls_along_every_ray_in_every_head(cfg: Any, make: Make, dims: int, seed: int) -> None:
    model = make(cfg, dims, seed=seed).double()
    x, positions = random_inputs(model, seed)
    ray = torch.randn(dims).double()
    positions = positions[:, :1] + torch.arange(9).double()[:, None] * ray / ray.norm()
    along = model.bias(x, Where(positions))[0, :, 0]  # (H, N) of the query where the ray begins
    assert (along[:, 0] == 0).all()
    assert (along.diff(dim=1) < 0).all()
