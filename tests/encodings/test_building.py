"""Encodings built from configs: units of length, ownership of weights, and what is said when something does not fit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ndformer.framework.tokens import Where
from ndformer.framework.transformer import Transformer

Make = Callable[..., Any]
ENCODINGS: dict[str, dict[str, Any]] = {
    "Sincos": dict(type="Sincos"),
    "AxialRoPE": dict(type="AxialRoPE"),
    "RoPEMixed": dict(type="RoPEMixed"),
    "ALiBi": dict(type="ALiBi"),
    "LookHere": dict(type="LookHere"),
    "RelativeBias": dict(type="RelativeBias", reach=4),
    "PaPE": dict(type="PaPE", m=5),
    "PaPE-concat": dict(type="PaPE", m=5, impl="paper_concat"),
    "PaPERI": dict(type="PaPERI"),
}
SCALE = (0.5, 2.0, 0.25)


def random_inputs(model: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    torch.manual_seed(1)
    x, positions = torch.randn(1, 8, model.dim).double(), torch.rand(1, 8, model.dims).double() * 9
    return x, positions, {"placed": torch.arange(8)[None] > 0}


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ENCODINGS)
def test_position_scale_and_scale_positions_scale_the_positions(name: str, dims: int, make: Make) -> None:
    plain = make(ENCODINGS[name], dims).double()
    scaled = make(ENCODINGS[name] | dict(position_scale=SCALE[:dims]), dims).double()
    scaled.load_state_dict(plain.state_dict())
    x, r, class_token = random_inputs(plain)
    factors = torch.tensor(SCALE[:dims]).double()
    with torch.no_grad():
        expected = plain(x, Where(r * factors, **class_token))
        assert (expected - plain(x, Where(r, **class_token))).abs().max() > 1e-5  # or it would show nothing
        assert torch.allclose(scaled(x, Where(r, **class_token)), expected, rtol=0, atol=1e-10)
        plain.encoding.scale_positions = SCALE[:dims]
        assert torch.allclose(plain(x, Where(r, **class_token)), expected, rtol=0, atol=1e-10)
        plain.encoding.scale_positions = scaled.encoding.scale_positions = 0.25  # one factor for all axes
        expected = plain(x, Where(r * factors, **class_token))
        assert torch.allclose(scaled(x, Where(r, **class_token)), expected, rtol=0, atol=1e-10)


def test_biases_of_several_encodings_are_summed(make: Make) -> None:
    names = "ALiBi", "RelativeBias", "LookHere", "PaPERI"
    together = make([ENCODINGS[name] for name in names], 2).double()
    apart = [make(ENCODINGS[name], 2).double() for name in names]
    for model, layer in zip(apart, together.attention.encoding.parts):
        model.attention.encoding.load_state_dict(layer.state_dict())
    x, r, class_token = random_inputs(together)
    where = Where(r, **class_token)
    expected = torch.stack([model.bias(x, where) for model in apart]).sum(0)
    assert torch.allclose(together.bias(x, where), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cfg", [*ENCODINGS.values(), list(ENCODINGS.values())], ids=[*ENCODINGS, "all"])
def test_every_weight_belongs_to_one_layer_and_stands_once_in_the_state_dict(cfg: Any) -> None:
    model = Transformer(dim=24, depth=2, heads=2, position_dims=2, encoding=cfg)
    parameters = [p for _, p in model.named_parameters(remove_duplicate=False)]
    assert len({id(p) for p in parameters}) == len(parameters)
    state = model.state_dict()
    assert len({t.data_ptr() for t in state.values()}) == len(state)
    assert not [name for name in state if name.startswith("encoding.")]  # the stage keeps none of its layers
    encoding: Any = model.encoding
    assert encoding.layer(0, 2) is not encoding.layer(0, 2)


@pytest.mark.parametrize("name", ENCODINGS)
def test_positions_of_another_number_of_dimensions_are_refused(name: str, make: Make) -> None:
    with pytest.raises(ValueError, match="must have 2 dimensions, got 3"):
        make(ENCODINGS[name], 2).encoding.prepare(Where(torch.zeros(1, 4, 3)))
