"""PEMixer: what its strategies start as, and what it leaves to the encodings that it mixes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.pe_mixer import STRATEGIES
from ndformer.framework.attention import build_encoding
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

DIM = 16


def build(**options: Any) -> Any:
    return build_encoding(dict(type="PEMixer", **options), dim=DIM, heads=2, position_dims=2, depth=2).double()


def random_inputs() -> tuple[Tensor, Where]:
    torch.manual_seed(1)
    return torch.randn(2, 7, DIM).double(), Where(torch.rand(2, 7, 2).double() * 9)


def embedded(encoding: PositionEncoding) -> Tensor:
    x, where = random_inputs()
    return encoding.embed(x, encoding.prepare(where))


def sincos() -> Tensor:
    """What Sincos adds."""
    encoding = build_encoding(dict(type="Sincos"), dim=DIM, heads=2, position_dims=2, depth=2)
    x, where = random_inputs()
    return encoding.embed(torch.zeros_like(x), encoding.prepare(where))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_start_as_these(strategy: str) -> None:
    x, e = random_inputs()[0], sincos()
    mixer = build(strategy=strategy)
    if strategy in ("hardcoded_normalization", "weighted_sum", "weighted_sum_vec"):
        expected = x / x.norm(dim=-1, keepdim=True) + e / e.norm(dim=-1, keepdim=True)
    elif strategy == "layer_norm":
        expected = F.layer_norm(x + e, [DIM])
    elif strategy == "positional_attention":  # as published
        torch.manual_seed(0)
        published = nn.MultiheadAttention(DIM, num_heads=8, batch_first=True).double()
        mix = mixer.mix
        mix.qkv.load_state_dict({"weight": published.in_proj_weight, "bias": published.in_proj_bias})
        mix.proj.load_state_dict(published.out_proj.state_dict())
        expected = x + published(x, e, e, need_weights=False)[0]
    else:
        expected = x + e
    torch.testing.assert_close(embedded(mixer), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if "weighted" in name or "scaling" in name])
def test_weights_act_on_what_they_are_named_for(strategy: str) -> None:
    x, e = random_inputs()[0], sincos()
    mixer = build(strategy=strategy)
    with torch.no_grad():
        for weight in mixer.parameters():
            weight.normal_()
    w = dict(mixer.mix.named_parameters())
    if strategy.startswith("weighted_sum") and "no_norm" not in strategy:
        x, e = x / x.norm(dim=-1, keepdim=True), e / e.norm(dim=-1, keepdim=True)
    expected = x + w["scale"] * e if "scaling" in strategy else w["of_token"] * x + w["of_position"] * e
    torch.testing.assert_close(embedded(mixer), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name.endswith("_vec")])
def test_a_vector_has_a_weight_for_each_channel_and_a_scalar_one_for_all(strategy: str) -> None:
    for name, size in (strategy, DIM), (strategy.removesuffix("_vec"), 1):
        assert {p.numel() for p in build(strategy=name).parameters()} == {size}


def test_two_are_mixed_as_the_tokens_with_the_first_and_what_the_second_adds() -> None:
    first, second = dict(type="Sincos", base=100.0), dict(type="Sincos", preset="pape_repo", position_scale=0.5)
    mixer = build(strategy="weighted_sum_no_norm", first=first, second=second)
    with torch.no_grad():
        mixer.mix.of_token.fill_(2.0)
        mixer.mix.of_position.fill_(-3.0)
    x, where = random_inputs()
    one, two = (build_encoding(cfg, dim=DIM, heads=2, position_dims=2, depth=2) for cfg in (first, second))
    expected = 2 * one.embed(x, one.prepare(where)) - 3 * two.embed(torch.zeros_like(x), two.prepare(where))
    torch.testing.assert_close(embedded(mixer), expected, rtol=0, atol=1e-12)


def test_position_scale_is_for_both_on_top_of_their_own() -> None:
    within = dict(type="PEMixer", second=dict(type="Sincos", base=50.0))
    parts = dict(first=within, second=dict(type="Sincos", position_scale=[3.0, 1.0]))
    plain, scaled = build(**parts), build(**parts, position_scale=[0.5, 2.0])
    x, where = random_inputs()
    factors = torch.tensor([0.5, 2.0]).double()
    expected = plain.embed(x, plain.prepare(Where(where.positions * factors)))
    torch.testing.assert_close(embedded(scaled), expected, rtol=0, atol=1e-12)


def test_biases_and_turns_are_those_of_a_list() -> None:
    mixer = build(first=dict(type="ALiBi"))
    together = build_encoding([dict(type="ALiBi")], dim=DIM, heads=2, position_dims=2, depth=2)
    x, where = random_inputs()
    q = x.unflatten(-1, (2, -1)).transpose(1, 2)
    biases = [e.layer(0, 2)(q, q, x, e.prepare(where))[2] for e in (mixer, together)]
    assert biases[0] is not None
    assert biases[1] is not None
    assert torch.equal(biases[0].rows(0, 7), biases[1].rows(0, 7))


def test_a_class_entry_is_mixed_too_and_other_tokens_without_a_place_are_not() -> None:
    x, where = random_inputs()
    positions, placed = torch.cat([where.positions[:, :1] * 0, where.positions[:, 1:]], dim=1), torch.arange(7) > 0
    cells = Where(positions, placed=placed[None], grid=(2, 3))
    for second, changed in (dict(type="LearnableAbsolute", grid=3), True), (dict(type="Sincos"), False):
        mixer = build(strategy="weighted_sum", second=second)
        y = mixer.embed(x, mixer.prepare(cells))
        assert torch.equal(y[:, 0], x[:, 0]) != changed
        assert not torch.isclose(y[:, 1:], x[:, 1:]).all(-1).any()


def test_its_parts_are_measured_in_its_own_unit() -> None:
    cells = torch.cartesian_prod(torch.arange(3.0) * 10, torch.arange(9.0))[None]
    options = dict(position_scale="auto", first=dict(type="PaPE", init_radius="spread"))
    measured = ENCODINGS.get("PEMixer").from_data(options, [Where(cells, grid=(3, 9))])
    assert measured == dict(position_scale=[0.1, 1], first=dict(type="PaPE", init_radius=[1, 4]))
