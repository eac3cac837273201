"""Circular axes: biases take the short way round, frequencies are whole turns, and what cannot do it refuses."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.adapter import Adapter
from ndformer.framework.attention import build_encoding
from ndformer.framework.encoding.circles import round_to_turns
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS, MODALITIES
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tests.encodings.conftest import parameters_of, weights_of

PERIODS: dict[int, list[float | None]] = {1: [7.0], 2: [None, 7.0], 3: [24.0, None, 3.5], 4: [None, 5.0, None, 9.0]}
NAMES = ["ALiBi", "RadialBias", "RelativeBias", "LookHere", "PaPE", "PaPERI", "PaPECompact"]
NAMES += ["AxialRoPE", "RotaryND", "PoPE", "GTA", "PRoPE", "Sincos", "Relative"]
NAMES += ["Polynomial", "DirectionalRPE", "FIRE", "ObjectSincos", "LaPE", "PEMixer"]
NO_FLEX = ["FIRE"]
OPTIONS: dict[str, Any] = {
    "RelativeBias": dict(reach=3),
    "PaPE": dict(m=4),
    "RotaryND": dict(directions="interleaved"),
    "Relative": dict(reach=3),
    "Polynomial": dict(degree=3, m=4, position_scale=0.1),
    "PEMixer": dict(
        strategy="weighted_sum_vec", first=dict(type="Sincos"), second=dict(type="Sincos", position_scale=0.5)
    ),
}
SCALED = [dict(type="ALiBi", position_scale=0.5), dict(type="AxialRoPE", position_scale=0.5)]
TRIALS = [(dict(type=name, **OPTIONS.get(name, {})), dims) for name in NAMES for dims in PERIODS]
TRIALS += [(cfg, 2) for cfg in SCALED] + [(dict(type="RotaryND", directions="heads"), 4)]


@pytest.mark.parametrize("cfg, dims", TRIALS, ids=str)
def test_outputs_and_gradients_are_those_of_the_reference(
    cfg: Any, dims: int, make: Callable[..., Any], reference: Callable[..., Tensor], plain_flex: None
) -> None:
    model = make(cfg | dict(periods=PERIODS[dims]), dims, max(3, dims), 24 if dims == 4 else 16, seed=dims).double()
    positions = torch.rand(2, 9, dims).double() * 60 - 30  # several turns
    layout: dict[str, Any] = {
        "positions": positions,
        "segment": torch.tensor([[0] * 5 + [1] * 4, [3] * 7 + [-1] * 2]),
        "placed": torch.arange(9)[None] > 0,
    }
    x, weights = torch.randn(2, 9, model.dim).double(), weights_of(model)
    exact_x = x.clone().requires_grad_()
    expected = reference(model, weights, exact_x, layout)
    wanted = torch.autograd.grad(expected.square().sum(), [exact_x, *weights.values()], allow_unused=True)
    where = Where(**layout)
    for backend in ("dense", "sdpa", *([] if cfg["type"] in NO_FLEX else ["flex"])):
        with torch.no_grad():
            assert (model(x, where, backend) - expected).abs().max() < 1e-10
    own_x = x.clone().requires_grad_()
    ours = torch.autograd.grad(model(own_x, where).square().sum(), [own_x, *parameters_of(model).values()])
    for a, b in zip(ours, wanted):
        assert b is None or (a - b).abs().max() < 1e-10 * max(1, float(b.abs().max()))


def results(model: Any, x: Tensor, r: Tensor) -> Tensor:
    where = Where(r[None])
    with torch.no_grad():
        logits = model.logits(x, where).nan_to_num(neginf=-1e3)  # LookHere masks pairs
        return torch.cat([model(x, where).flatten(), logits.flatten()])


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_100_turns_of_2_pi_change_nothing(name: str, dims: int, make: Callable[..., Any]) -> None:
    """2 pi is no binary fraction: positions in float32 are rounded by 3e-5 there before any encoding gets them."""
    single = make(dict(type=name, periods=[math.tau] * dims) | OPTIONS.get(name, {}), dims, 3, 24)
    double = copy.deepcopy(single).double()
    places = math.tau * torch.rand(12, dims).double()
    away = places + math.tau * torch.randint(-100, 101, places.shape).double()
    x = torch.randn(1, 12, single.dim)
    assert (results(double, x.double(), away) - results(double, x.double(), places)).abs().max() < 1e-9
    assert (results(single, x, away) - results(single, x, places)).abs().max() < 1e-5
    rounded = away.float()
    assert (results(single, x, rounded) - results(double, x.double(), rounded.double())).abs().max() < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_turns_of_2_pi_change_nothing_on_a_grid(name: str, make: Callable[..., Any]) -> None:
    """Tokens of one row or column stay there, although whole turns are rounded in float64."""
    model = make(dict(type=name, periods=[math.tau] * 2) | OPTIONS.get(name, {}), 2, 3, 24).double()
    angles = math.tau / 8 * torch.arange(3).double()
    grid = torch.cartesian_prod(angles, angles)
    turned = grid + math.tau * torch.randint(-9, 10, grid.shape).double()
    x = torch.randn(1, 9, model.dim).double()
    assert (results(model, x, turned) - results(model, x, grid)).abs().max() < 1e-9


def test_a_heading_has_one_frequency_as_in_drope() -> None:
    """DRoPE (arXiv:2503.15029): every pair makes one turn in 2 pi."""
    table = 100.0 ** -torch.arange(0, 1, 0.125)[None, :, None]
    assert torch.allclose(round_to_turns(table, (2 * math.pi,)), torch.ones(1).double())


def test_frequencies_are_round_to_turns_also_after_scaling() -> None:
    turns = round_to_turns(torch.tensor([[1.0, 1.0], [0.01, -0.4], [0.0, 0.2]]), (None, 24.0)) * torch.tensor(
        [1, 24 / (2 * math.pi)]
    )
    assert turns.tolist() == [pytest.approx(row) for row in ([1, 4], [0.01, -2], [0, 1])]


@pytest.mark.parametrize("name", sorted(set(ENCODINGS.module_dict) - set(NAMES) - {"NoPE"}))
def test_others_refuse_and_say_what_to_take(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has no circular axes, got periods=.*Use AxialRoPE"):
        build_encoding(dict(type=name, periods=[None, 360]), dim=48, heads=2, position_dims=2, depth=2)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(type="ALiBi", periods=[360]), r"one entry per position dimension \(2\), None for a line, got \[360\]"),
        (dict(type="RotaryND", learned=True, periods=[None, 360]), "RotaryND has no circular axes"),
        (dict(type="RotaryND", normalize="max", periods=[None, 360]), "RotaryND has no circular axes"),
        (dict(type="AxialRoPE", jitter=1.1, periods=[None, 360]), "a stretched circle does not close"),
        (dict(type="PaPE", impl="paper_concat", periods=[None, 360]), "periods need impl='quadratic'"),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_encoding(options, dim=48, heads=2, position_dims=2, depth=2)


@pytest.mark.parametrize("kind", ["export", pytest.param("compile", marks=pytest.mark.slow)])
def test_one_graph_gives_the_same(kind: str) -> None:
    parts = [
        dict(type=name, periods=[None, 7.0])
        for name in ("Sincos", "LaPE", "AxialRoPE", "PaPE", "FIRE", "DirectionalRPE")
    ]

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Transformer(24, 1, 2, position_dims=2, encoding=parts)

        def forward(self, x: Tensor, r: Tensor) -> Tensor:
            return self.inner(TokenSet(x, Where(r))).features

    model, inputs = Model().eval(), (torch.randn(2, 9, 24), torch.rand(2, 9, 2) * 20)
    torch.compiler.reset()
    if kind == "compile":
        graph: Any = torch.compile(model, fullgraph=True, backend="aot_eager")
    else:
        graph = torch.export.export(model, inputs).module()
    torch.testing.assert_close(graph(*inputs), model(*inputs))


def test_circles_are_not_interpolated() -> None:
    encoding = build_encoding(dict(type="ALiBi", periods=[None, 8]), dim=48, heads=2, position_dims=2, depth=2)
    encoding.scale_positions = 0.5
    assert encoding.factors == (0.5, 1.0)
    assert not encoding.rotation_invariant  # of a line and a circle


class Panorama(Adapter):
    """Rows and azimuths of a panorama, as an adapter that declares its circle."""

    axes = ("row", "azimuth")
    periods = (None, 360.0)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, azimuths: Tensor) -> TokenSet:
        r = torch.stack([torch.zeros_like(azimuths), azimuths], -1)
        return TokenSet(
            torch.linspace(-1, 1, azimuths.shape[1])[None, :, None].expand(len(azimuths), -1, self.dim), Where(r)
        )


@pytest.mark.parametrize("encoding", ["AxialRoPE", "ALiBi", ["Sincos", "PaPE"]])
def test_an_adapter_declares_the_circles_of_its_space(encoding: Any) -> None:
    parts = [dict(type=name) for name in ([encoding] if isinstance(encoding, str) else encoding)]
    MODALITIES.register_module(module=Panorama, force=True)
    try:
        body = dict(type="Transformer", dim=24, depth=1, heads=2, position_dims=2, encoding=parts)
        head = dict(type="Classifier", classes=3, pool="mean")
        model = TokenModel(dict(image=dict(type="Panorama")), body, head).eval()
        azimuths = torch.tensor([[1.0, 90.0, 200.0, 359.0]])
        turned = azimuths + torch.tensor([[0.0, 360.0, -720.0, 360.0]])
        assert torch.equal(model(turned), model(azimuths))
        assert body["encoding"] == parts
        with pytest.raises(ValueError, match="LieRE has no circular axes"):
            TokenModel(dict(image=dict(type="Panorama")), body | dict(encoding=dict(type="LieRE")), head)
    finally:
        del MODALITIES.module_dict["Panorama"]
