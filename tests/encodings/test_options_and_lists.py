"""Encodings with options, in lists and within others, where their defaults alone say little."""

import copy
from typing import Any

import pytest
import torch

from ndformer.framework.attention import build_encoding
from ndformer.framework.encoding.grouped import prepare
from ndformer.framework.encoding.scaling import Scaling
from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tests.encodings.conftest import Model

PLACE: dict[str, Any] = dict(dim=48, heads=2, position_dims=2, depth=2)


def build(cfg: Any) -> Any:
    torch.manual_seed(0)
    return build_encoding(cfg, **PLACE).eval()


def test_options_do_not_break_the_graph() -> None:
    cases = [(dict(type=name, init_radius=2.0), None) for name in ("PaPE", "PaPERI")]
    cases += [
        (dict(type="RoPEMixed", preset=preset), Scaling("ntk", (2.0, 2.0))) for preset in ("original", "pape_repo")
    ]
    for cfg, scaling in cases:
        network: Any = Transformer(24, 1, 2, 2, cfg).eval()
        network.encoding.scaling = scaling
        given = TokenSet(torch.randn(1, 9, 24), Where(torch.rand(1, 9, 2)))
        torch.compiler.reset()
        y = torch.compile(network, fullgraph=True, backend="eager")(given).features
        torch.testing.assert_close(y, network(given).features)


def test_neighbors_of_a_large_cloud_are_its_own() -> None:
    torch.manual_seed(0)
    spacing = Spacing.measure([Where(torch.rand(1, 8000, 2))], (1.0, 1.0))
    assert spacing is not None
    assert spacing.nearest == pytest.approx(
        8000**-0.5 * 0.47, rel=0.1
    )  # median of a Poisson process: sqrt(ln 2 / pi n)


def test_packed_samples_are_measured_apart_also_where_values_are_not_read() -> None:
    torch.manual_seed(0)
    where = Where(torch.rand(1, 900, 2), segment=torch.arange(3).repeat_interleave(300)[None])
    expected = Spacing.measure([where], (1.0, 1.0))
    object.__setattr__(where, "cut", None)  # as on a GPU
    assert Spacing.measure([where], (1.0, 1.0)) == expected


def test_every_backbone_takes_a_head_per_modality() -> None:
    video = dict(type="Tubelets", tubelet=(2, 4, 4))
    body = dict(type="FactorizedTransformer", dim=16, depth=1, time_depth=1, heads=2, position_dims=3)
    head = dict(type="Classifier", classes=3, pool="mean")
    model = TokenModel(dict(a=video, b=video), body, dict(a=head, b=head)).eval()
    assert model(dict(b=torch.randn(2, 4, 3, 8, 8))).shape == (2, 3)


def test_circles_are_not_interpolated_by_any_scaling() -> None:
    encoding = build(dict(type="AxialRoPE", periods=[None, 64.0]))
    where = Where(torch.rand(1, 7, 2) * 30)
    plain = encoding.prepare(where)
    for kind in ("linear", "ntk", "yarn"):
        encoding.scaling = Scaling(kind, (1.0, 2.0), (8.0, 64.0))
        state = encoding.prepare(where)
        assert torch.equal(state.cos, plain.cos)
        assert state.logit_scale == 1.0


def test_a_list_has_one_temperature() -> None:
    encoding = build([dict(type="AxialRoPE"), dict(type="RotaryND", directions="golden")])
    encoding.scaling = Scaling("yarn", (2.0, 2.0), (8.0, 8.0))
    q = torch.ones(1, 2, 3, 24)
    rotated, *_ = encoding.layer(0, 2)(q, q, torch.zeros(1, 3, 48), encoding.prepare(Where(torch.zeros(1, 3, 2))))
    torch.testing.assert_close(rotated, q * encoding.scaling.gain)


def moved(model: Any, how: Any) -> float:
    torch.manual_seed(1)
    x, r = torch.randn(1, 9, model.dim).double(), torch.rand(1, 9, 2).double() * 8
    placed = torch.arange(9)[None] > 0
    with torch.no_grad():
        logits = [model.logits(x, Where(p, placed=placed))[:, :, 1:, 1:] for p in (r, how(r))]
    return (logits[0] - logits[1]).abs().max().item()


def test_lists_of_rotations_are_relative_only_if_these_commute() -> None:
    for other, relative in (
        (dict(type="RotaryND", directions="golden"), True),
        (dict(type="RotaryND", directions="golden", halves=True), False),
        (dict(type="PoPE"), False),
        (dict(type="STRING"), False),
        (dict(type="GRAPE"), False),
    ):
        model = Model([dict(type="AxialRoPE"), other], 2, width=24).double()
        assert (moved(model, lambda r: r + 3.3) < 1e-9) == relative
        assert model.encoding.translation_invariant == relative


def test_flags_are_those_of_the_options() -> None:
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]]).double()
    for cfg in (
        dict(type="ALiBi", position_scale=[1.0, 2.0]),
        dict(type="PaPERI", position_scale=[1.0, 2.0]),
        dict(type="Relative", method="euclidean", periods=[None, 7.0]),
    ):
        model = Model(cfg, 2, width=24).double()
        assert moved(model, lambda r: r @ turn) > 1e-3
        assert not model.encoding.rotation_invariant
    assert not build(dict(type="PaPE", context=False)).content_dependent


def test_batch_statistics_of_packed_rows_have_the_random_numbers_of_their_groups() -> None:
    grids = ((2, 3), (3, 3))
    r = torch.cat([torch.cartesian_prod(*(torch.arange(float(n)) for n in grid)) for grid in grids])[None]
    where = Where(r, segment=torch.tensor([[0] * 6 + [1] * 9]), grids=grids)
    mlp = dict(type="LearnableMLP", norm="batch", shift=5.0)
    network: Any = Transformer(16, 2, 2, 2, mlp).train()
    state = prepare(network.encoding, where)
    assert torch.equal(state.packed_state[0][0, :6], state.groups[0].state[0][0])


def test_no_tokens_have_gradients_under_autocast() -> None:
    network = Transformer(16, 1, 2, 2, dict(type="PaPE", m=4))
    x = torch.randn(2, 0, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = network(TokenSet(x, Where(torch.zeros(2, 0, 2)))).features
    y.float().sum().backward()


def test_a_mixers_scale_counts_once_for_an_encoding_in_an_encoding() -> None:
    where = Where(torch.rand(1, 7, 2) * 5)

    def embeddings(cfg: Any) -> Any:
        encoding = build(cfg)
        encoding.layer(0, 2)
        return encoding.prepare(where)

    mixed = embeddings(dict(type="PEMixer", position_scale=2.0, first=dict(type="LaPE")))[0]
    torch.testing.assert_close(mixed[0], embeddings(dict(type="LaPE", position_scale=2.0))[0])
    options = dict(type="LaPE", encoding=dict(type="Sincos", position_scale="auto"))
    cells = torch.cartesian_prod(torch.arange(3.0) * 10, torch.arange(9.0))[None]
    measured = ENCODINGS.get("LaPE").from_data(options, [Where(cells, grid=(3, 9))])
    assert measured["encoding"]["position_scale"] == [0.1, 1]


def test_wide_queries_come_last_where_others_follow() -> None:
    assert build(dict(type="PEMixer", first=dict(type="PoPE")))
    with pytest.raises(ValueError, match="normalizes q and k"):
        build([dict(type="AxialRoPE"), dict(type="PEMixer", first=dict(type="LogCPB", cosine=True))])


def test_narrow_heads_do_not_lose_axes() -> None:
    with pytest.raises(ValueError, match="needs a channel pair for each of 3 axes, got heads of 4"):
        build_encoding(dict(type="RotaryND", directions="interleaved"), dim=8, heads=2, position_dims=3, depth=1)


def test_positions_have_a_gradient_where_blocks_turn() -> None:
    r = torch.rand(1, 5, 2, requires_grad=True)
    model = Model(dict(type="LieRE", normalize=None), 2)
    model(torch.randn(1, 5, model.dim), Where(r))[0, 0].sum().backward()
    assert r.grad is not None
    assert r.grad.abs().max() > 0


def test_drawn_frequencies_keep_their_digits_in_16_bit() -> None:
    encoding = build(dict(type="RotaryND", directions="simplex"))
    where = Where(torch.rand(1, 30, 2) * 100)
    low = copy.deepcopy(encoding).bfloat16().prepare(where)
    assert (encoding.prepare(where).cos - low.cos).abs().max() < 1e-5
