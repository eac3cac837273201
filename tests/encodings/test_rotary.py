"""RotaryND: its directions, presets against values of public code; places stretched by chance in training."""

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
import torch

from ndformer.encodings.rotary_directions import FIXED, RANDOM, simplex
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.tokens import Where

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
ALL = [*FIXED, *RANDOM]


def build(dims: int, width: int = 48, heads: int = 2, **cfg: Any) -> Any:
    torch.manual_seed(0)
    return build_encoding(
        dict(type="RotaryND") | cfg, dim=width * heads, heads=heads, position_dims=dims, depth=2
    ).double()


def logits(encoding: Any, where: Where, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    q, k, bias = encoding.layer(0, 2).to(q.dtype)(q, k, q.transpose(1, 2).flatten(2), encoding.prepare(where))
    assert bias is None
    return q @ k.transpose(-1, -2)


def test_vjepa2_is_no_rotation_and_says_so() -> None:
    encoding = build(3, preset="vjepa2")
    r = torch.randint(0, 8, (1, 9, 3)).double()
    q, k = torch.randn(2, 1, 2, 9, 48, dtype=torch.float64)
    moved = logits(encoding, Where(r + 3), q, k) - logits(encoding, Where(r), q, k)
    assert moved.abs().max() > 0.1
    assert not encoding.translation_invariant
    assert build(3).translation_invariant


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_the_corners_of_a_simplex_are_as_far_apart_as_can_be(dims: int) -> None:
    table = simplex(3, 60, dims, 100.0).double().unflatten(1, (-1, dims + 1))  # (H, scales, P + 1, P)
    sizes = table.norm(dim=-1)
    scales = torch.arange(sizes.shape[1]).double() / sizes.shape[1]
    torch.testing.assert_close(sizes, (100**-scales)[None, :, None].expand_as(sizes), rtol=1e-5, atol=0)
    torch.testing.assert_close(table.sum(2), torch.zeros_like(table[:, :, 0]), rtol=0, atol=1e-6)
    products = table @ table.mT / sizes[..., :1, None] ** 2
    expected = torch.eye(dims + 1).double() * (1 + 1 / dims) - 1 / dims
    torch.testing.assert_close(products, expected.expand_as(products), rtol=0, atol=1e-5)
    assert dims == 1 or not torch.allclose(table[0, 0], table[1, 0])  # heads are turned apart


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_golden_directions_are_those_of_the_formula(dims: int) -> None:
    low, high = 1.0, 2.0
    for _ in range(200):  # bisection
        middle = (low + high) / 2
        low, high = (middle, high) if middle ** (dims + 1) < middle + 1 else (low, middle)
    table = FIXED["golden"](3, 20, dims, 50.0)
    for c, h in ((0, 0), (0, 2), (4, 1), (9, 2)):
        i = 1 + 3 * c + h
        way = [NormalDist().inv_cdf((i / low ** (p + 1)) % 1) for p in range(dims)]
        expected = torch.tensor(way, dtype=torch.float64) / math.hypot(*way) * 50 ** (-c / 10)
        torch.testing.assert_close(table[h, c], expected, rtol=0, atol=1e-9)


def test_learned_frequencies_start_where_fixed_ones_are() -> None:
    for directions in FIXED:
        fixed, learned = build(2, directions=directions), build(2, directions=directions, learned=True)
        (weight,) = learned.layer(0, 2).parameters()
        torch.testing.assert_close(weight.double(), fixed.frequencies(), rtol=1e-6, atol=1e-7)


def test_normalized_places_do_not_mind_the_size_of_an_image() -> None:
    """Four patches of a row see each other as every second one of eight does, but for half a patch at the ends."""
    encoding = build(2, normalize="separate").eval()
    small = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))[None].double()
    u = encoding.unit(small, Where(small))
    torch.testing.assert_close(u[0, :4, 1], torch.tensor([-0.75, -0.25, 0.25, 0.75]).double())
    wide = torch.cartesian_prod(torch.arange(2.0), torch.arange(8.0))[None].double()
    for by, rows, columns in (
        ("separate", [-0.5, 0.5], 0.875),
        ("min", [-0.5, 0.5], 6.5),
        ("max", [-0.875, -0.625], 0.875),
    ):
        u = build(2, normalize=by).eval().unit(wide, Where(wide))
        assert (u[0, ::8, 0].tolist(), u[0, :, 1].max().item()) == (rows, columns)


@pytest.mark.skipif(not GOLDEN.exists(), reason="no ../shared/golden")
@pytest.mark.parametrize("case", ["2x3x4_w32", "2x4x4_w24", "masked_2x3x4"])
def test_vjepa2_has_the_logits_of_its_code(case: str) -> None:
    theirs = torch.load(GOLDEN / "vjepa2_rope.pt", weights_only=True)[case]
    encoding = build(3, theirs["head_width"], theirs["heads"], preset="vjepa2")
    actual = logits(encoding, Where(theirs["positions_thw"].double()), theirs["q"], theirs["k"])
    scale = theirs["logits"].norm() / actual.norm()  # with or without 1 / sqrt(h)
    assert min(abs(scale - 1), abs(scale - theirs["head_width"] ** -0.5)) < 1e-6
    torch.testing.assert_close(actual * scale, theirs["logits"], rtol=0, atol=1e-6)


@pytest.mark.skipif(not GOLDEN.exists(), reason="no ../shared/golden")
@pytest.mark.parametrize("case", ["w32_6_5_5", "w32_8_4_4_base1e4"])
def test_qwen3vl_turns_as_its_code_does(case: str) -> None:
    theirs = torch.load(GOLDEN / "qwen3vl_mrope.pt", weights_only=True)[case]
    options = dict(sections=theirs["mrope_section"], base=theirs["rope_theta"])
    encoding = build(3, 32, theirs["q"].shape[1], preset="qwen3vl", **options)
    frequencies = encoding.frequencies()[0]
    assert frequencies.abs().argmax(1).tolist() == theirs["axis_of_pair"].tolist()
    positions = theirs["positions_thw"].T[None]
    actual = logits(encoding, Where(positions), theirs["q"], theirs["k"])
    exact = theirs["q_out"] @ theirs["k_out"].transpose(-1, -2)
    torch.testing.assert_close(actual, exact, rtol=0, atol=1e-6)


@pytest.mark.skipif(not GOLDEN.exists(), reason="no ../shared/golden")
def test_qwen3vls_own_sections() -> None:
    axes = torch.load(GOLDEN / "qwen3vl_mrope.pt", weights_only=True)["default_section_axis"]
    encoding = build(3, 128, 1, preset="qwen3vl", sections=[24, 20, 20])
    assert encoding.frequencies()[0].abs().argmax(1).tolist() == axes.tolist()


def test_places_are_stretched_in_training_alone_and_unplaced_tokens_stay() -> None:
    r = torch.rand(2, 7, 2).double() * 9 + 1
    placed = torch.arange(7)[None].expand(2, -1) > 0
    where = Where(r, placed=placed)
    encoding = build_encoding(
        dict(type="NoPE", shift=2.0, jitter=1.5, rescale=2.0), dim=8, heads=2, position_dims=2, depth=1
    ).double()
    torch.testing.assert_close(encoding.eval().prepare(where), where.positions)
    encoding.train()
    torch.manual_seed(3)
    first, second = encoding.prepare(where), encoding.prepare(where)
    torch.manual_seed(3)
    assert torch.equal(encoding.prepare(where), first)  # by the seed
    assert not torch.equal(first, second)
    assert (first[:, 0] == 0).all()
    slope = (first[:, 1:2] - first[:, 2:]) / (where.positions[:, 1:2] - where.positions[:, 2:])
    torch.testing.assert_close(slope, slope[:1, :1].expand_as(slope))  # one factor per axis, for all samples
    assert (slope[0, 0] != slope[0, 0, 0]).any()
    assert ((slope[0, 0] > 1 / 3) & (slope[0, 0] < 3)).all()
    offset = first[0, 1] / slope[0, 0] - where.positions[0, 1]
    assert (offset.abs() <= 2).all()
    assert (offset.abs() > 0).all()
    for _ in range(100):  # tokens are moved before axes are stretched
        r = encoding.prepare(where)[0]
        slope = (r[1] - r[2]) / (where.positions[0, 1] - where.positions[0, 2])
        assert ((r[1] / slope - where.positions[0, 1]).abs() < 2 + 1e-9).all()
