"""GlobePatches: degrees of a gridded field, whose longitudes close."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.model import TokenModel
from ndformer.modalities.image.adapter import ImagePatches
from ndformer.modalities.image.globe import GlobePatches


def test_tokens_are_in_the_middle_of_their_cells_in_degrees() -> None:
    model = GlobePatches(12, patch=2, class_token=False)
    one = model(torch.randn(2, 1, 4, 8)).where
    assert one.grid == (2, 4)
    assert one.positions[0].tolist() == [[north, east] for north in (45, -45) for east in (45, 135, 225, 315)]
    packed = model([torch.randn(1, 4, 8), torch.randn(1, 2, 4)]).where
    assert packed.segment is not None
    assert packed.positions[packed.segment == 1].tolist() == [[0, 90], [0, 270]]


@pytest.mark.parametrize("encoding", ["AxialRoPE", "ALiBi", "PaPECompact", "GTA"])
def test_a_field_that_starts_at_another_longitude_gives_the_same(encoding: str) -> None:
    def outputs(periods: dict[str, Any]) -> Tensor:
        torch.manual_seed(0)
        cfg = dict(type=encoding, position_scale=1 / 45) | periods
        globe = dict(type="GlobePatches", patch=2, class_token=False)
        body = dict(type="Transformer", dim=24, depth=2, heads=2, position_dims=2, encoding=cfg)
        model = TokenModel(dict(image=globe), body, dict(type="Classifier", classes=3, pool="mean"))
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        field = torch.randn(1, 1, 8, 16).double()
        return torch.cat([model.double().eval()(dict(image=x)) for x in (field, field.roll(6, -1))])

    there = outputs({})
    assert (there[0] - there[1]).abs().max() < 1e-6  # positions are float32
    straight = outputs(dict(periods=[None, None]))
    assert (straight[0] - straight[1]).abs().max() > 1e-4


def panorama(encoding: str, class_at: str, pool: str = "class") -> TokenModel:
    torch.manual_seed(0)
    image = dict(type="ImagePatches", patch=2, channels=1, registers=1, class_at=class_at)
    cfg = dict(type=encoding, periods=[None, 8])
    body = dict(type="Transformer", dim=24, depth=2, heads=2, position_dims=2, encoding=[dict(type="NoPE"), cfg])
    model = TokenModel(dict(image=image), body, dict(type="Classifier", classes=3, pool=pool))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model.double().eval()


@pytest.mark.parametrize("class_at", ["auto", "nowhere"])
@pytest.mark.parametrize("encoding", ["PaPE", "PaPECompact", "ALiBi", "RelativeBias"])
def test_a_class_token_does_not_bring_the_seam_back(encoding: str, class_at: str) -> None:
    model, field = panorama(encoding, class_at), torch.randn(2, 1, 8, 16).double()
    assert (model(field.roll(6, -1)) - model(field)).abs().max() < 1e-12
    ragged = [field[0], field[1, :, :4]]  # packed
    assert (model([x.roll(6, -1) for x in ragged]) - model(ragged)).abs().max() < 1e-12


@pytest.mark.parametrize("encoding", ["AxialRoPE", "Sincos"])
def test_a_rotary_class_token_is_at_the_origin_of_the_circle(encoding: str) -> None:
    """Tokens that are not rotated act like tokens at the origin, and embeddings are absolute: whole turns are safe."""
    model, field = panorama(encoding, "auto"), torch.randn(2, 1, 8, 16).double()
    assert (model(field.roll(6, -1)) - model(field)).abs().max() > 1e-3
    assert (model(field.roll(16, -1)) - model(field)).abs().max() == 0


@pytest.mark.parametrize("class_at", ["center", "origin"])
def test_other_positions_of_the_class_token_are_refused_on_a_circle(class_at: str) -> None:
    with pytest.raises(ValueError, match=rf"with periods=\[None, 8\], got '{class_at}': .* Set class_at='auto'"):
        panorama("PaPE", class_at)


def test_a_misspelled_position_of_the_class_token_is_refused() -> None:
    with pytest.raises(ValueError, match="class_at must be 'nowhere', 'origin', 'center' or 'auto', got 'middle'"):
        ImagePatches(16, patch=8, class_at="middle")  # pyright: ignore[reportArgumentType]
