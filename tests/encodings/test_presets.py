"""Encodings start as their authors define them, and as the PaPE repository has them under preset='pape_repo'."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import Where
from tests.encodings.references.alibi import published_slopes

Make = Callable[..., Any]
REPO = dict(preset="pape_repo")
REPO_AXES = {
    1: [0],
    2: [1, 0],
    3: [0, 1, 2],
    4: [0, 1, 2, 3],
}  # our axes in its order: x before y, where we have (y, x)


def random_inputs(model: Any, tokens: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(1, tokens, model.dim).double(), torch.rand(1, tokens, model.dims).double() * 9


def queries_and_keys(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """2 of (H, N, h), unturned."""
    qkv = x[0] @ model.attention.qkv.weight.T + model.attention.qkv.bias
    q, k, _ = qkv.view(len(qkv), 3, model.heads, model.width).permute(1, 2, 0, 3)
    return q, k


def rotated(t: Tensor, pairs: list[tuple[int, int]], angles: Tensor) -> Tensor:
    """(N, h) with each pair of channels turned by its angle (N, pairs)."""
    out = t.clone()
    for n, (a, b) in enumerate(pairs):
        cos, sin = angles[:, n].cos(), angles[:, n].sin()
        out[:, a] = t[:, a] * cos - t[:, b] * sin
        out[:, b] = t[:, a] * sin + t[:, b] * cos
    return out


@pytest.mark.parametrize("heads", [3, 8, 12])
def test_alibi_has_the_published_slopes(heads: int, make: Make) -> None:
    model = make(dict(type="ALiBi"), 2, heads=heads, width=4).double()
    where = Where(torch.tensor([[[0.0, 0], [3, 4]]]).double())
    bias = model.bias(torch.zeros(1, 2, model.dim).double(), where)[0, :, 0, 1]
    assert torch.allclose(bias, -5 * torch.tensor(published_slopes(heads), dtype=torch.float64), rtol=1e-12)


@pytest.mark.parametrize("dims, width", [(1, 8), (2, 10), (3, 8)])
def test_sincos_of_the_paper_repository_has_all_sines_of_an_axis_first(dims: int, width: int, make: Make) -> None:
    model = make(dict(type="Sincos", **REPO), dims, width=width)
    x, positions = random_inputs(model)
    actual = model.encoding.embed(torch.zeros_like(x), model.encoding.prepare(Where(positions)))[0]
    expected = []
    for n, p in enumerate(REPO_AXES[dims]):
        each = model.dim // dims + (model.dim % dims if n == dims - 1 else 0)
        for function, count in (torch.sin, math.ceil(each / 2)), (torch.cos, each // 2):
            expected += [function(positions[0, :, p] / 10000 ** (2 * i / each)) for i in range(count)]
    assert torch.allclose(actual, torch.stack(expected, dim=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dims, width", [(1, 16), (2, 64), (3, 64), (4, 20)])
def test_axial_rope_of_the_paper_repository_pads_turns_halves_and_cuts(dims: int, width: int, make: Make) -> None:
    model = make(dict(type="AxialRoPE", **REPO), dims, heads=2, width=width).double()
    x, positions = random_inputs(model)
    each = math.ceil(width / (2 * dims))  # pairs of an axis
    half = each * dims
    pairs = [(i, i + half) for i in range(half)]
    angles = torch.stack(
        [positions[0, :, p] / 10000 ** (i / each) for p in REPO_AXES[dims] for i in range(each)], dim=1
    )
    with torch.no_grad():
        actual = model.logits(x, Where(positions))[0]
        for head, (q, k) in enumerate(zip(*queries_and_keys(model, x))):
            pad = torch.zeros(len(q), 2 * half - width).double()
            q, k = (rotated(torch.cat([t, pad], dim=1), pairs, angles)[:, :width] for t in (q, k))
            assert torch.allclose(actual[head], q @ k.T / math.sqrt(width), rtol=0, atol=1e-12)


@pytest.mark.parametrize("axes", [[2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("name", ["Sincos", "AxialRoPE"])
def test_axes_says_which_axis_owns_the_first_channels(name: str, axes: list[int], make: Make) -> None:
    """Events of that repository are at (x, y, t), ours at (t, y, x)."""
    turned, plain = (make(dict(type=name, **REPO, **order), 3, width=20).double() for order in (dict(axes=axes), {}))
    x, positions = random_inputs(plain)
    with torch.no_grad():
        actual, expected = turned.logits(x, Where(positions)), plain.logits(x, Where(positions[..., axes]))
        assert torch.allclose(actual, expected, rtol=0, atol=1e-12)
        assert not torch.allclose(actual, plain.logits(x, Where(positions)), atol=1e-3)
    with pytest.raises(ValueError, match="axes must contain each of 0..2 once, got \\[0, 0, 1\\]"):
        make(dict(type=name, axes=[0, 0, 1]), 3)


def test_rope_mixed_of_the_paper_repository_divides_by_wavelengths_alike_in_all_heads_and_axes(make: Make) -> None:
    model = make(dict(type="RoPEMixed", **REPO), 2, heads=3, width=10).double()
    wavelengths = model.attention.encoding.frequencies
    expected = torch.tensor([100 ** (i / 5) for i in range(5)]).double()
    assert wavelengths.shape == (3, 5, 2)
    assert torch.allclose(wavelengths, expected[:, None].expand(3, 5, 2), rtol=1e-6)

    x, positions = random_inputs(model)
    with torch.no_grad():
        wavelengths.mul_(1 + torch.rand_like(wavelengths))  # as learned
        actual = model.logits(x, Where(positions))[0]
        for head, (q, k) in enumerate(zip(*queries_and_keys(model, x))):
            angles = (positions[0, :, None] / wavelengths[head]).sum(-1)  # (N, pairs)
            q, k = (rotated(t, [(i, i + 5) for i in range(5)], angles) for t in (q, k))
            assert torch.allclose(actual[head], q @ k.T / math.sqrt(10), rtol=0, atol=1e-12)


def test_pape_ri_of_the_paper_repository_keeps_its_scale_as_drawn(make: Make) -> None:
    layer = make(dict(type="PaPERI", **REPO), 2, heads=200, width=1).attention.encoding
    assert [name for name, _ in layer.named_parameters()] == ["wa"]
    assert set(layer.state_dict()) == {"wa", "scale"}
    assert_uniform(layer.scale, 2**-0.5, rtol=0.15)


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_rope_mixed_starts_with_a_rotated_frame_in_each_head_and_layer(dims: int, make: Make) -> None:
    model = make(dict(type="RoPEMixed"), dims, heads=4, width=16)
    each = 16 // (2 * dims)
    first, other = (layer.frequencies.detach() for layer in (model.attention.encoding, model.encoding.layer(2, 4)))
    frames = first.view(4, dims, each, dims)
    sizes = frames.norm(dim=-1)
    assert torch.allclose(sizes, (10 ** -(torch.arange(each) / each)).expand(4, dims, each), atol=1e-6)
    units = frames[:, :, 0]  # (H, P, P)
    assert torch.allclose(units @ units.mT, torch.eye(dims).expand(4, dims, dims), atol=1e-6)
    assert torch.allclose(torch.linalg.det(units), torch.ones(4), atol=1e-6)
    if dims > 1:
        assert not torch.allclose(first, other)
        assert not torch.allclose(first[0], first[1])


def test_rope_mixed_draws_frames_from_all_directions_alike() -> None:
    torch.manual_seed(0)
    encoding: Any = build_encoding(dict(type="RoPEMixed"), dim=18000, heads=3000, position_dims=3, depth=1)
    frequencies = encoding.layer(0, 1).frequencies.detach()
    assert torch.allclose(frequencies.mean(0), torch.zeros(3, 3), atol=0.05)  # each entry has variance 1/3
    assert torch.allclose(frequencies.var(0), torch.full((3, 3), 1 / 3), rtol=0.1)


def assert_uniform(t: Tensor, bound: float, rtol: float = 0.03) -> None:
    assert t.abs().max() <= bound
    assert math.isclose(t.abs().mean().item(), bound / 2, rel_tol=rtol)
    assert math.isclose(t.std().item(), bound / math.sqrt(3), rel_tol=rtol)
