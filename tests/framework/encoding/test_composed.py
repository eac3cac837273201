"""Several encodings in a list: what the list promises, given what its parts promise."""

from typing import Any

import pytest
import torch

from ndformer.framework.encoding.composed import build_encoding, with_periods
from ndformer.framework.tokens import Where
from tests.encodings.references.gta import random_cameras


def build(*parts: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return build_encoding(list(parts), dim=16, heads=2, position_dims=2, depth=2)


@pytest.mark.parametrize(
    "flag, part",
    [
        ("translation_invariant", dict(type="Sincos")),
        ("rotation_invariant", dict(type="PaPE")),
        ("float_positions", dict(type="RelativeBias")),
        ("circular_axes", dict(type="LieRE")),
        ("fullgraph", dict(type="CPE", voxels=True)),
    ],
)
def test_a_list_has_a_property_if_all_parts_have_it(flag: str, part: dict[str, Any]) -> None:
    alibi = dict(type="ALiBi")
    assert [getattr(build(*parts), flag) for parts in ([alibi, alibi], [part, alibi], [alibi, part])] == [1, 0, 0]


@pytest.mark.parametrize(
    "flag, part",
    [
        ("needs_grid", dict(type="SaPE2")),
        ("content_dependent", dict(type="PaPE")),
        ("embeds_unplaced", dict(type="LearnableAbsolute")),
        ("changes_unplaced", dict(type="PoPE")),
        ("bounded", dict(type="LearnableAbsolute", extent=(0, 9))),
        ("scales_waves", dict(type="AxialRoPE")),
        ("uses_cameras", dict(type="PRoPE")),
    ],
)
def test_a_list_has_a_need_if_any_part_has_it(flag: str, part: dict[str, Any]) -> None:
    alibi = dict(type="ALiBi")
    assert [getattr(build(alibi, second), flag) for second in (alibi, part)] == [0, 1]


def test_layers_of_a_list_take_batch_statistics_if_a_part_does() -> None:
    for norm, expected in (("batch", True), ("layer", False)):
        layer = build(dict(type="ALiBi"), dict(type="LearnableMLP", norm=norm)).layer(0, 2)
        assert (layer.batch_statistics, layer.changes_qk_input) == (expected, True)


def test_the_radius_of_a_list_is_the_largest_of_its_parts() -> None:
    parts = [dict(type="PaPE", init_radius=radius) for radius in (4.0, 1.0)]
    assert build(*parts).initial_radius == build(*parts[::-1]).initial_radius == 12
    assert build(*parts, dict(type="NoPE")).initial_radius is None


def test_interpolation_reaches_all_parts() -> None:
    encoding = build(dict(type="Sincos"), dict(type="ALiBi", position_scale=2.0))
    encoding.scale_positions = (0.5, 0.25)
    assert [part.factors for part in encoding.parts] == [(0.5, 0.25), (1.0, 0.5)]


def test_parts_with_periods_keep_them() -> None:
    parts = [dict(type="ALiBi"), dict(type="PaPE", periods=[None, 7.0])]
    assert with_periods(parts, [None, 360.0]) == [dict(type="ALiBi", periods=[None, 360.0]), parts[1]]
    assert with_periods(parts[1], [None, 360.0]) == parts[1]


def test_outputs_undo_the_transforms_of_values_last_first() -> None:
    """PRoPE and GTA do not commute: they transform the same channels."""
    encoding = build(dict(type="PRoPE"), dict(type="GTA")).double()
    layer, x = encoding.layer(0, 2), torch.randn(1, 5, 16, dtype=torch.float64)
    state = encoding.prepare(Where(4 * torch.rand(1, 5, 2).double(), cameras=random_cameras(1, 5)))
    v = torch.randn(1, 2, 5, 8, dtype=torch.float64)  # of tokens that attend to themselves alone
    torch.testing.assert_close(layer.output(layer.values(v, x, state), x, state), v)
