"""Options of rotary encodings: each changes what its formula says, in 1 to 4 dimensions, and beside any other."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.encodings.rotary import PRESETS
from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import Where
from tests.encodings.conftest import parameters_of, weights_of
from tests.encodings.references.gta import random_cameras
from tests.encodings.test_reference import error

HALF = dict(channels=0.5)
REVERSED: dict[str, Any] = dict(axes="reversed")
HEADS_OF_AXES: dict[str, Any] = dict(directions="heads", sections="one each")
FORMULAS: list[dict[str, Any]] = [
    dict(type="RotaryND", directions="heads"),
    dict(type="RotaryND", directions="heads", **REVERSED),
    dict(type="RotaryND", base=30.0, **HEADS_OF_AXES, **REVERSED),
    dict(type="RotaryND", directions="heads", learned=True, **HALF),
    dict(type="RotaryND", directions="interleaved", **HALF, **REVERSED),
    dict(type="RotaryND", **HALF, **REVERSED),
    dict(type="AxialRoPE", **HALF),
    dict(type="AxialRoPE", **HALF, **REVERSED),
    dict(type="AxialRoPE", preset="pape_repo", **HALF),
    dict(type="RoPEMixed", **HALF),
    dict(type="RoPEMixed", preset="pape_repo", **HALF),
    dict(type="GTA", **HALF, **REVERSED),
    dict(type="GTA", cameras=0.5, **HALF),
    dict(type="PRoPE", **HALF),
    dict(type="PoPE", **HALF),
    dict(type="PoPE", **HALF, **REVERSED),
    dict(type="STRING", **HALF),
]


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
@pytest.mark.parametrize("cfg", FORMULAS, ids=str)
def test_output_and_gradients_are_those_of_the_formula(
    cfg: dict[str, Any], dims: int, make: Callable[..., Any], reference: Callable[..., Tensor]
) -> None:
    cfg = dict(cfg)
    if "axes" in cfg:
        cfg["axes"] = list(range(dims))[::-1]
    if "sections" in cfg:
        cfg["sections"] = [2] + [1] * (dims - 1)  # heads: none or more are left
    model = make(cfg, dims, heads=5, width=(24, 24, 26, 32)[dims - 1], seed=dims).double()
    layout: dict[str, Any] = dict(positions=4 * torch.rand(1, 6, dims).double(), placed=torch.arange(6)[None] > 0)
    if model.encoding.uses_cameras:
        layout["cameras"] = random_cameras(1, 6)
    x, towards = torch.randn(2, 1, 6, model.dim).double()
    weights, exact_x = weights_of(model), x.clone().requires_grad_()
    expected = reference(model, weights, exact_x, layout)
    inputs = {"x": exact_x, **weights}
    gradients = torch.autograd.grad((expected * towards).sum(), list(inputs.values()), allow_unused=True)
    own_x = x.clone().requires_grad_()
    y = model(own_x, Where(**layout))
    (y * towards).sum().backward()
    assert error(y, expected) <= 1e-10
    actual = {"x": own_x.grad, **{name: p.grad for name, p in parameters_of(model).items()}}
    for (name, value), gradient in zip(inputs.items(), gradients):
        assert error(actual[name], torch.zeros_like(value) if gradient is None else gradient) <= 1e-10, name


OPTIONS: dict[str, list[Any]] = dict(
    directions=["interleaved", "heads", "spiral", "mixed", "simplex", "golden"],
    learned=[True],
    base=[7.0],
    halves=[True],
    axes=[[1, 0]],
    sections=[[1, 2]],
    normalize=["separate", "ends"],
    channels=[0.5],
    position_scale=[0.5],
    preset=["dinov3", "vjepa2", "utonia", "qwen3vl", "mhrope", "spiral", "pape_repo"],
    cameras=[0.5, 0.0],
    camera_scale=[0.1],
)
AGREE = {  # an option and a preset that sets it to the same value, or order axes as it does
    *(("halves", preset) for preset in ("dinov3", "qwen3vl", "mhrope")),
    ("directions", "qwen3vl"),
    ("directions", "mhrope"),
    ("directions", "spiral"),
    ("normalize", "dinov3"),
    ("axes", "pape_repo"),
    ("preset", "7.0"),  # utonia has nothing else but a base, except in training
}


def computed(cfg: dict[str, Any]) -> Tensor | None:
    """Attention's logits and output with these options, or None where they are refused."""
    torch.manual_seed(0)
    try:
        encoding: Any = build_encoding(cfg, dim=160, heads=4, position_dims=2, depth=1).double()
    except (ValueError, TypeError, KeyError):
        return None
    torch.manual_seed(1)
    layer = encoding.layer(0, 1).double()
    positions = 4 * torch.rand(1, 6, 2).double() * torch.tensor([1.0, 2.0])
    q, k, v = torch.randn(3, 1, 4, 6, 40).double()
    x = torch.randn(1, 6, 160).double()
    state = encoding.eval().prepare(Where(positions, cameras=random_cameras(1, 6) if encoding.uses_cameras else None))
    q, k, _ = layer(q, k, x, state)
    logits = q @ k.mT
    output = layer.output(logits.softmax(-1) @ layer.values(v, x, state), x, state)
    return torch.cat([logits.flatten(), output.flatten()]).detach()


@pytest.mark.parametrize("name", ["RotaryND", "AxialRoPE", "RoPEMixed", "GTA", "PRoPE", "PoPE", "STRING"])
def test_no_option_is_ignored_beside_another(name: str) -> None:
    """It changes the result, or it is refused, or a table of the pages says that it has no effect."""
    options = [(option, value) for option, values in OPTIONS.items() for value in values]
    alone = {str(option): computed({"type": name, option[0]: option[1]}) for option in options}
    plain, ignored = computed(dict(type=name)), []
    assert plain is not None
    for option in options:
        result = alone[str(option)]
        same_as_default = name == "PRoPE" and option == ("cameras", 0.5) or name == "GTA" and option == ("cameras", 0.0)
        if result is not None and torch.equal(result, plain) and not same_as_default:
            ignored.append((option, None))
    for pair in itertools.combinations(options, 2):
        if pair[0][0] == pair[1][0]:
            continue
        both = computed(dict(pair, type=name))
        for option, other in (pair, pair[::-1]):
            result, default = alone[str(other)], alone[str(option)]
            if both is None or result is None or (default is not None and torch.equal(default, plain)):
                continue
            agrees = (option[0], str(other[1])) in AGREE or (option[0] == "position_scale" and other[1] == "ends")
            if torch.equal(both, result) and not agrees:
                ignored.append((option, other))
    assert not ignored


@pytest.mark.parametrize(
    "preset, options",
    [
        ("spiral", dict(directions="spiral", base=10000.0, position_scale=1.5)),
        ("mhrope", dict(directions="heads", base=5e6, halves=True)),
        ("mrope_interleaved", dict(directions="interleaved", base=5e6, halves=True)),
    ],
)
def test_presets_of_published_names_are_their_options(preset: str, options: dict[str, Any]) -> None:
    actual, expected = computed(dict(type="RotaryND", preset=preset)), computed(dict(type="RotaryND", **options))
    assert actual is not None
    assert expected is not None
    assert torch.equal(actual, expected)


def test_a_preset_has_its_base_in_all_encodings_that_take_it() -> None:
    for name, preset in (("GTA", "utonia"), ("PRoPE", "utonia"), ("PoPE", "utonia"), ("GTA", "mhrope")):
        encoding: Any = build_encoding(dict(type=name, preset=preset), dim=96, heads=4, position_dims=2, depth=1)
        assert encoding.base == PRESETS[preset]["base"]


def test_heads_left_by_sections_see_no_positions_and_count_in_no_coverage() -> None:
    """MHRoPE's authors give 2, 3 and 3 of 8 heads to time, rows and columns."""
    cfg = dict(type="RotaryND", preset="mhrope", sections=[2, 3, 2])
    encoding: Any = build_encoding(cfg, dim=128, heads=8, position_dims=3, depth=1)
    assert encoding.frequencies()[:, 0].abs().tolist() == [
        *([[1, 0, 0]] * 2), *([[0, 1, 0]] * 3), *([[0, 0, 1]] * 2), [0, 0, 0],
    ]  # fmt: skip
    grid = torch.cartesian_prod(*[torch.arange(4.0)] * 3)[None]
    assert [coverage.name for coverage in encoding.coverage([Where(grid)])] == [
        f"waves along axis {p}" for p in (0, 1, 2)
    ]
