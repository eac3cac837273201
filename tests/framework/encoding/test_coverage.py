"""Coverage counts what tokens really use: against every angle, step and weight that they have, one by one."""

import itertools
import math
from typing import Any

import pytest
import torch

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.encoding.coverage import Coverage, Span
from ndformer.framework.tokens import Where
from tests.encodings.references.all import CASES, built


def grid(*sizes: int, step: float = 1.0) -> Where:
    cells = torch.tensor([*itertools.product(*(range(n) for n in sizes))], dtype=torch.float32)[None]
    return Where(cells * step, grid=sizes)


def build(cfg: Any, dims: int = 2, heads: int = 4, width: int = 32) -> Any:
    torch.manual_seed(0)
    return build_encoding(cfg, dim=heads * width, heads=heads, position_dims=dims, depth=2)


def covered(cfg: Any, where: Where) -> list[Coverage]:
    return build(cfg, where.positions.shape[2]).coverage([where])


def test_a_span_is_that_of_the_widest_sample_with_padding_and_unplaced_tokens_aside() -> None:
    positions = torch.tensor([[[0.0, 0], [3, 1], [9, 9]], [[5, 5], [6, 9], [7, 5]]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    span = Span.measure([Where(positions, valid=valid), Where(positions[1:] + 10)], (1.0, 2.0))
    assert span is not None
    assert (span.extent, span.low, span.high) == ((3, 8), (0, 0), (17, 38))
    assert not span.on_grid
    assert Span.measure([Where(torch.ones(1, 3, 2))], (1.0, 1.0)) is None
    assert PositionEncoding(8, 2, 2, 1).coverage([Where(torch.ones(1, 3, 2))]) == []


def test_free_tokens_on_whole_numbers_along_an_axis_are_a_whole_step_apart() -> None:
    """Events: many times at each of a few rows."""
    torch.manual_seed(0)
    positions = torch.stack([torch.rand(2, 90) * 100, torch.randint(0, 5, (2, 90)).float()], dim=-1)
    span = Span.measure([Where(positions)], (1.0, 1.0))
    assert span is not None
    assert span.step[1] == 1
    assert 0.5 < span.step[0] < 20


@pytest.mark.parametrize("step", [1.0, 6.0])
@pytest.mark.parametrize(
    "cfg",
    [
        dict(type="AxialRoPE"),
        dict(type="AxialRoPE", position_scale=[0.5, 1.0]),
        dict(type="RotaryND", directions="interleaved"),
        dict(type="RotaryND", normalize="separate"),
        dict(type="RotaryND", normalize="max"),
    ],
    ids=str,
)
def test_waves_are_counted_as_their_angles_are(cfg: dict[str, Any], step: float) -> None:
    """Of all tokens on a line of the grid: the range of the angles, and the change from one to the next."""
    where, encoding = grid(5, 9, step=step), build(cfg)
    unit = encoding.unit(where.positions * torch.tensor(encoding.factors), where)[0].double()
    unit = unit * (2 * math.pi if encoding.normalize else 1)
    found = encoding.coverage([where])
    for axis, one in enumerate(found):
        table = encoding.frequencies()[0, :, axis]
        wanted = [0, 0, 0]
        for w in table[table > 0].tolist():
            angles = (unit[:, axis].unique() * w).sort().values
            aliased, constant = angles.diff().max() > math.pi, angles[-1] - angles[0] < 2 * math.pi / 8
            wanted[0 if aliased else 2 if constant else 1] += 1
        assert one.counts == tuple(wanted)
    assert len(found) == 2


def test_waves_along_no_axis_turn_as_often_as_from_corner_to_corner() -> None:
    where, encoding = grid(5, 9), build(dict(type="RotaryND", directions="golden", base=1000.0))
    (one,) = encoding.coverage([where])
    corners = torch.cartesian_prod(torch.tensor([0.0, 4.0]), torch.tensor([0.0, 8.0])).double()
    angles = encoding.frequencies() @ corners.T  # (H, pairs, corners)
    turns = (angles.amax(-1) - angles.amin(-1)).flatten() / (2 * math.pi)
    assert one.counts[2] == int((turns < 1 / 8).sum()) > 0
    assert one.lengths == pytest.approx((8 / turns).tolist())


@pytest.mark.parametrize(
    "cfg", [dict(type="AxialRoPE", base=1e6), dict(type="Sincos"), dict(type="RoPEMixed", base=1e6)]
)
def test_the_base_that_a_warning_names_has_all_waves_turn(cfg: dict[str, Any]) -> None:
    where = grid(14, 14)
    found = covered(cfg, where)
    (base,) = {float(said.split("base=")[1].split()[0]) for one in found for said in one.warnings}
    assert all(one.counts[2] > len(one.lengths) / 2 for one in found)
    for one in covered(cfg | dict(base=base * 0.99), where):
        assert one.counts == (0, len(one.lengths), 0)
        assert one.warnings == ()


@pytest.mark.parametrize("scale", [50.0, 0.001])
def test_tokens_in_another_unit_are_told_of_position_scale(scale: float) -> None:
    for one in covered(dict(type="AxialRoPE"), grid(14, 14, step=scale)):
        assert "position_scale='auto'" in one.warnings[0]


@pytest.mark.parametrize("reach", [3, 8, 30])
def test_steps_of_a_table_are_those_that_two_tokens_are_apart(reach: int) -> None:
    where = grid(5, 9)
    found = covered(dict(type="RelativeBias", reach=reach), where)
    for axis, one in enumerate(found):
        r = where.positions[0, :, axis]
        apart = {min(reach, int(d)) for d in (r[:, None] - r).abs().flatten().tolist()}
        assert one.counts == (0, len(apart), reach + 1 - len(apart))
        most = int(r.max())
        says = f"reach={most}" in " ".join(one.warnings)
        assert says == (most > reach or reach + 1 > 2 * (most + 1))


def test_buckets_are_met_up_to_where_tokens_reach() -> None:
    (one, _) = covered(dict(type="Relative", buckets="log", method="cross"), grid(12, 12))  # 8 + log-spaced up to 128
    assert one.lengths[:9] == tuple(range(9))
    assert one.counts == (0, sum(begin <= 11 for begin in one.lengths), sum(begin > 11 for begin in one.lengths))


def test_tables_whose_steps_tokens_skip_or_share_are_told() -> None:
    for step, word in ((2.0, "steps between are never used"), (0.25, "several tokens share a step")):
        said = covered(dict(type="RelativeBias"), grid(9, 9, step=step))[0].warnings
        assert any(word in sentence for sentence in said)


def test_cells_of_a_table_over_places() -> None:
    inside, border = dict(type="LearnableAbsolute", grid=5, extent=(0.0, 8.0)), grid(9, 3)
    along, across = covered(inside, border)
    assert along.counts == (0, 5, 0)
    assert across.counts == (0, 2, 3)  # from 0 to 2 of 8: between two cells of five
    assert "extent=(0, 2)" in across.warnings[0]
    beyond = covered(inside, grid(12, 9))
    assert "share those at the border: extent=(0, 11)" in beyond[0].warnings[0]
    assert beyond[1].warnings == ()
    resampled = covered(dict(type="LearnableAbsolute", grid=[7, 9]), grid(5, 9))
    assert [one.warnings for one in resampled] == [("7 cells along axis 0 are resampled to 5: grid=5",), ()]


@pytest.mark.parametrize("step", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("cfg", [dict(type="ALiBi"), dict(type="PaPECompact", init_radius=[0.2, 20.0])], ids=str)
def test_radii_are_counted_by_the_weights_that_tokens_get(cfg: dict[str, Any], step: float) -> None:
    where, encoding = grid(5, 5, step=step), build(cfg)
    (one,) = encoding.coverage([where])
    far = step * math.hypot(4, 4)
    gauss = cfg["type"] != "ALiBi"
    wanted = [0, 0, 0]
    for length in one.lengths:
        weight = lambda d, n=length: math.exp(-(d**2) / (2 * n**2)) if gauss else math.exp(-d / n)
        blind, flat = weight(step) < (math.exp(-4.5) if gauss else math.exp(-5)), weight(far) > math.exp(-1 / 8)
        wanted[0 if blind else 2 if flat else 1] += 1
    assert one.counts == tuple(wanted)


@pytest.mark.parametrize("name", CASES)
def test_every_encoding_can_be_asked(name: str) -> None:
    for one in built(CASES[name], 2).coverage([grid(5, 9)]):
        assert sum(one.counts) == len(one.lengths) > 0
        assert min(one.counts) >= 0


def test_encodings_of_ones_own_are_asked_for_their_first_reach_alone() -> None:
    class Mine(PositionEncoding):
        @property
        def initial_radius(self) -> float | None:
            return 3.0

    (one,) = Mine(8, 2, 2, 1).coverage([grid(4, 4, step=4.0)])
    assert (one.name, one.counts) == ("initial radius", (1, 0, 0))
    assert "the initial radius does not reach the nearest token, 4 away" in one.warnings[0]
    assert Mine(8, 2, 2, 1).coverage([grid(4, 4)])[0].warnings == ()


def test_several_encodings_are_named_and_wrapped_ones_asked_in_their_own_unit() -> None:
    found = covered([dict(type="AxialRoPE"), dict(type="PaPE", m=4), dict(type="NoPE")], grid(7, 7))
    assert [one.name for one in found] == [
        "AxialRoPE: waves along axis 0",
        "AxialRoPE: waves along axis 1",
        "PaPE: radii",
    ]
    inner = dict(type="Sincos", position_scale=0.5)
    wrapped = covered(dict(type="LaPE", position_scale=0.25, encoding=inner), grid(7, 7))
    assert wrapped == covered(dict(type="Sincos", position_scale=0.125), grid(7, 7))


def test_sums_of_gates_go_up_to_the_tokens_in_between() -> None:
    """Of CoPE over all tokens, of SaPE2 over those of a line; half open gates come to half of them."""
    (one,) = covered(dict(type="CoPE", npos_max=64), grid(5, 9))
    assert one.counts == (0, 46, 18)
    assert one.warnings == ()
    assert "npos_max=51" in covered(dict(type="CoPE", npos_max=16), grid(10, 10))[0].warnings[0]
    down, across = covered(dict(type="SaPE2", npos_max=64), grid(5, 9))
    assert (down.counts[1], across.counts[1]) == (6, 10)
    assert "npos_max=6" in down.warnings[0]


def test_steps_beyond_the_grid_that_was_learned_are_told() -> None:
    down, across = covered(dict(type="LogCPB", trained=6), grid(5, 9))
    assert (down.counts, across.counts) == ((0, 4, 0), (0, 5, 3))
    assert "longer than the steps of 6 cells" in across.warnings[0]
    assert all(one.warnings == () for one in covered(dict(type="LogCPB"), grid(5, 9)))


def test_fire_draws_out_samples_that_are_larger_than_its_length() -> None:
    assert covered(dict(type="FIRE"), grid(5, 9))[0].counts == (0, 1, 0)
    (small,) = covered(dict(type="FIRE"), grid(5, 9, step=0.1))
    assert small.counts == (0, 0, 1)
    assert "position_scale" in small.warnings[0]


@pytest.mark.parametrize("form", ["elementwise", "multivariate"])
def test_a_polynomials_radius_is_where_its_even_powers_take_half_a_logit(form: str) -> None:
    """Against the mean over many drawn weights, at that distance along each axis."""
    (one,) = covered(dict(type="Polynomial", degree=4, form=form), grid(5, 9))
    torch.manual_seed(1)
    (radius,), m, dims, width = one.lengths, 50, 2, 32
    w = (2 * torch.rand(20000, m) - 1) * dims**-0.5
    a = torch.nn.functional.softplus(torch.randn(20000, m) / 3**0.5)
    powers = (2, 4) if form == "elementwise" else (4,)
    fall = sum((a * (w * radius) ** n).sum(1).mean() for n in powers) / width**0.5
    assert float(fall) == pytest.approx(0.5, rel=0.02)


def test_radii_below_one_step_are_told_with_what_the_nearest_token_weighs() -> None:
    (one,) = covered(dict(type="PaPE", m=4, init_radius=[0.5, 2.0]), grid(5, 9))
    assert one.counts[1] == 4
    assert (
        one.note == "2 shorter than a step, 1: the nearest token weighs 0.14 to 0.45"
    )  # exp(-1 / 2 r^2), r = 1/2, 0.79
    assert covered(dict(type="PaPE", m=4, init_radius=2.0), grid(5, 9))[0].note == ""
