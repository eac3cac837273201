"""Circular axes in backbones that group tokens by position: they refuse them, or keep the promise."""

from typing import Any

import pytest
import torch

from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.backbones.platonic import PlatonicTransformer
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.driving.models.unitr.network import UniTR


def in_a_list(cfg: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(type="NoPE"), cfg]


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("encoding", ["ALiBi", "AxialRoPE", "Sincos"])
@pytest.mark.parametrize("backbone, dims", [(PTv3, 3), (UniTR, 2)])
def test_backbones_of_windows_refuse_circles(backbone: Any, dims: int, encoding: str, composed: bool) -> None:
    cfg = dict(type=encoding, periods=[*[None] * (dims - 1), 360])
    message = rf"{backbone.__name__} expects straight axes, got periods=\[None, .*360.0\].*Use Transformer"
    with pytest.raises(ValueError, match=message):
        backbone(encoding=in_a_list(cfg) if composed else cfg)


def test_frames_refuse_circles_in_a_list_too() -> None:
    cfg = dict(type="AxialRoPE", periods=[None, 360])
    with pytest.raises(ValueError, match="rotates axes into each other, got circular ones"):
        PlatonicTransformer(dim=64, depth=1, heads=4, position_dims=2, frames="square", encoding=in_a_list(cfg))


def factorized(encoding: Any) -> FactorizedTransformer:
    torch.manual_seed(0)
    model = FactorizedTransformer(24, 2, 1, 2, 3, encoding)  # summaries are unplaced: the second block shows positions
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model.double().eval()


@pytest.mark.parametrize("encoding", ["ALiBi", "AxialRoPE", "PaPE", "Sincos"])
@pytest.mark.parametrize("composed", [False, True])
def test_a_factorized_model_has_circles_in_space(encoding: str, composed: bool) -> None:
    cfg: dict[str, Any] = dict(type=encoding, periods=[None, None, 360])
    model = factorized(in_a_list(cfg) if composed else cfg)
    x, r = torch.randn(2, 12, 24).double(), torch.rand(2, 12, 3).double() * 90
    r[..., 0] = torch.arange(12) // 4
    turned = r + 360 * torch.randint(-2, 3, r.shape) * torch.tensor([0, 0, 1])
    for m, closes in (model, True), (factorized(cfg | dict(periods=None)), False):
        here, there = (m(TokenSet(x, Where(positions))).features for positions in (r, turned))
        assert ((here - there).abs().max() < 1e-12) == closes


@pytest.mark.parametrize("periods", [[24, None, None], [None, 360], [360]])
def test_a_factorized_model_has_a_time_on_a_line(periods: list[float | None]) -> None:
    with pytest.raises(ValueError, match="periods must have 3 entries for FactorizedTransformer, the first None, got"):
        factorized(dict(type="ALiBi", periods=periods))


def test_weights_of_a_factorized_model_have_their_names_with_and_without_circles() -> None:
    with_circles, without = (factorized(dict(type="PaPE") | more) for more in (dict(periods=[None, None, 360]), {}))
    assert list(with_circles.state_dict()) == list(without.state_dict())
    assert "space.blocks.0.attention.encoding.wp" in without.state_dict()
