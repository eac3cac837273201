"""Scaling at test time: linear, NTK-aware and YaRN, against their published formulas, wave by wave."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.encoding.scaling import KINDS, Kind, Scaling
from ndformer.framework.tokens import Where
from tests.encodings.references.all import CASES, built

LARGER, TRAINED, UNIT = (2.0, 3.5), (7.0, 5.0), (1.0, 0.5)  # per axis
ROTARY = [
    dict(type="AxialRoPE"),
    dict(type="AxialRoPE", preset="pape_repo"),
    dict(type="RoPEMixed"),
    dict(type="RoPEMixed", preset="pape_repo"),
    dict(type="RotaryND", directions="golden"),
    dict(type="RotaryND", directions="simplex", learned=True),
    dict(type="RotaryND", directions="interleaved", halves=True),
]


def build(cfg: dict[str, Any], width: int = 16, **more: Any) -> Any:
    torch.manual_seed(0)
    return build_encoding(cfg | more, dim=2 * width, heads=2, position_dims=2, depth=1).double().eval()


def logits(encoding: Any, where: Where, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    layer = encoding.layer(0, 1).double()
    q, k, _ = layer(q, k, q.transpose(1, 2).flatten(2), encoding.prepare(where))
    return q @ k.transpose(-1, -2)


def rotated(waves: list[list[list[float]]], r: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Re(q_i conj(k_j) exp(-i w'(r_j - r_i))) over pairs of neighbors, pair by pair; waves[head][pair][axis]."""
    dr = r[0] - r[0][:, None]  # (N, N, P)
    out = torch.zeros(1, q.shape[1], r.shape[1], r.shape[1], dtype=torch.float64)
    for h, of_head in enumerate(waves):
        for f, w in enumerate(of_head):
            a, b = (torch.view_as_complex(t[0, h, :, 2 * f : 2 * f + 2].contiguous()) for t in (q, k))
            angle = sum(dr[..., p] * w[p] for p in range(len(w)))
            out[0, h] += (a[:, None] * b.conj()[None] * torch.exp(-1j * torch.as_tensor(angle))).real
    return out


def axial(base: Callable[[int], float], width: int = 16) -> list[list[list[float]]]:
    """The published ladder of each axis, whose base may be its own."""
    n = width // 4
    return [[[base(p) ** (-i / n) if p == axis else 0.0 for axis in (0, 1)] for p in (0, 1) for i in range(n)]] * 2


@pytest.fixture
def random_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    q, k = torch.randn(2, 1, 2, 9, 16, dtype=torch.float64)
    return torch.rand(1, 9, 2, dtype=torch.float64) * 20, q, k


def test_ntk_is_the_published_growth_of_the_base(random_inputs: Any) -> None:
    """base s^(d / (d - 2)), each axis with its own d = 8 channels and its own s."""
    r, q, k = random_inputs
    encoding = build(dict(type="AxialRoPE", base=100.0))
    encoding.scaling = Scaling("ntk", LARGER)
    expected = rotated(axial(lambda p: 100.0 * LARGER[p] ** (8 / (8 - 2))), r, q, k)
    torch.testing.assert_close(logits(encoding, Where(r), q, k), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("turns", [(0.05, 0.8), (1.0, 32.0)])
def test_yarn_is_ntk_by_parts_with_a_temperature(random_inputs: Any, turns: tuple[float, float]) -> None:
    r, q, k = random_inputs
    encoding = build(dict(type="AxialRoPE", base=100.0), position_scale=UNIT)
    encoding.scaling = Scaling("yarn", LARGER, TRAINED, turns)
    alpha, beta = turns

    def scaled(w: float, p: int) -> float:
        wavelength = 2 * math.pi / (w * UNIT[p])  # in positions as they come
        ratio = TRAINED[p] / wavelength
        ramp = 0.0 if ratio < alpha else 1.0 if ratio > beta else (ratio - alpha) / (beta - alpha)
        return UNIT[p] * ((1 - ramp) * w / LARGER[p] + ramp * w)

    waves = [[[scaled(w[p], p) if w[p] else 0.0 for p in (0, 1)] for w in head] for head in axial(lambda p: 100.0)]
    temperature = 1 / (0.1 * math.log(LARGER[0] * LARGER[1]) + 1) ** 2
    expected = rotated(waves, r, q, k) / temperature
    torch.testing.assert_close(logits(encoding, Where(r), q, k), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("preset", ["original", "pape_repo"])
@pytest.mark.parametrize("kind", ["ntk", "yarn"])
def test_learned_waves_are_scaled_by_their_own_length(random_inputs: Any, kind: Any, preset: str) -> None:
    """By |w| and by how often w turns from corner to corner; each component by its axis' factor."""
    r, q, k = random_inputs
    encoding = build(dict(type="RoPEMixed", preset=preset, base=100.0))
    encoding.scaling = Scaling(kind, LARGER, TRAINED, (0.1, 1.0))
    torch.manual_seed(0)
    layer = encoding.layer(0, 1).double()
    with torch.no_grad():
        layer.frequencies.mul_(torch.rand_like(layer.frequencies) + 0.5)  # as if trained
    repo = preset == "pape_repo"
    n, longest = (8, math.sqrt(2)) if repo else (4, 1.0)
    waves = []
    for head in layer.frequencies.tolist():
        waves.append([])
        for w in head:
            w = [1 / part for part in w] if repo else w
            rung = math.log(longest / math.hypot(*w)) / math.log(100.0 ** ((n - 1) / n))
            turns = sum(abs(part) * extent for part, extent in zip(w, TRAINED)) / (2 * math.pi)
            ramp = min(1.0, max(0.0, (turns - 0.1) / 0.9))
            ntk = [part * s ** -min(1.0, max(0.0, rung)) for part, s in zip(w, LARGER)]
            yarn = [(1 - ramp) * part / s + ramp * part for part, s in zip(w, LARGER)]
            waves[-1].append(ntk if kind == "ntk" else yarn)
    gain = (0.1 * math.log(LARGER[0] * LARGER[1]) + 1) ** 2 if kind == "yarn" else 1.0
    order = [c for f in range(8) for c in (f, f + 8)] if repo else list(range(16))  # halves
    expected = rotated(waves, r, q[..., order], k[..., order]) * gain
    x = q.transpose(1, 2).flatten(2)
    a, b, _ = layer(q, k, x, encoding.prepare(Where(r)))
    torch.testing.assert_close(a @ b.transpose(-1, -2), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cfg", [*ROTARY, dict(type="RotaryND", normalize="separate")], ids=str)
def test_a_factor_of_one_changes_nothing_to_the_last_digit(random_inputs: Any, cfg: dict[str, Any], kind: Any) -> None:
    r, q, k = random_inputs
    encoding = build(cfg, position_scale=0.7)
    plain = logits(encoding, Where(r), q, k)
    encoding.scaling = Scaling(kind, (1.0, 1.0), TRAINED)
    assert torch.equal(logits(encoding, Where(r), q, k), plain)


@pytest.mark.parametrize("cfg", ROTARY, ids=str)
def test_ntk_leaves_the_fastest_wave_and_interpolates_the_slowest(cfg: dict[str, Any]) -> None:
    """Also of directions that are no ladder on each axis."""
    encoding = build(cfg, width=64)
    torch.manual_seed(0)
    table = next(iter(encoding.layer(0, 1).parameters()), None)
    table = encoding.frequencies().double() if table is None else table.detach().double()
    table = 1 / table if cfg == dict(type="RoPEMixed", preset="pape_repo") else table
    sizes = table.norm(dim=-1)
    assert encoding.frequency_range == pytest.approx((sizes.max().item(), sizes.min().item()), rel=1e-5)
    ratio = Scaling("ntk", (2.0, 2.0)).frequencies(table, encoding.frequency_range, (1.0, 1.0)).norm(dim=-1) / sizes
    torch.testing.assert_close(ratio.amax(1), torch.ones_like(ratio[:, 0]), rtol=1e-5, atol=0)
    torch.testing.assert_close(ratio.amin(1), torch.ones_like(ratio[:, 0]) / 2, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_linear_divides_the_positions_of_every_encoding(name: str) -> None:
    encoding: Any = built(CASES[name], 2)
    encoding.scale_positions = (0.5, 0.25)
    expected = encoding.factors
    encoding.scale_positions = 1.0
    kinds: tuple[Kind, ...] = ("linear",) if encoding.scales_waves else KINDS  # without waves all kinds are that
    for kind in kinds:
        encoding.scaling = Scaling(kind, (2.0, 4.0), TRAINED)
        assert encoding.factors == expected


def test_of_several_encodings_rotations_are_scaled_and_others_interpolated() -> None:
    place = dict(dim=32, heads=2, position_dims=2, depth=1)
    model: Any = build_encoding([dict(type="AxialRoPE"), dict(type="Sincos")], **place)
    model.scaling = Scaling("ntk", (2.0, 4.0))
    assert [part.factors for part in model.parts] == [(1, 1), (0.5, 0.25)]
    assert model.scales_waves


def test_smaller_images_get_no_temperature() -> None:
    assert Scaling("yarn", (0.5, 0.5), TRAINED).gain == 1.0


@pytest.mark.parametrize(
    "options, sentence",
    [
        (dict(kind="cubic", factors=(2.0, 2.0)), "scaling must be linear, ntk, yarn"),
        (dict(kind="ntk", factors=(2.0, 0.0)), "by factors above 0"),
        (dict(kind="yarn", factors=(2.0, 2.0)), "training extent along each of 2 axes"),
    ],
)
def test_what_does_not_go_is_said(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Scaling(**options)
