"""ObjectSincos: how object numbers come to it, and its two layouts."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.adapter import Adapter
from ndformer.framework.attention import build_encoding
from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.tokens import TokenSet, Where

DIM = 16
OBJECTS = torch.tensor([[0, 0, 3, 3, 1, 2], [5, 0, 0, 1, 1, 4]])


def added(where: Where, rows: int = 1, **options: Any) -> Tensor:
    """What it adds to the tokens."""
    dims = where.positions.shape[2]
    encoding = build_encoding(
        dict(type="ObjectSincos", **options), dim=DIM, heads=2, position_dims=dims, depth=1
    ).double()
    return encoding.embed(torch.zeros(rows, where.positions.shape[1], DIM).double(), encoding.prepare(where))


def grid() -> Tensor:
    return torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0)).double()[None]


def alone(n: Tensor, width: int) -> Tensor:
    """Of single numbers: sines and cosines in turn, as nn.functional says nothing about."""
    angles = n.double()[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def test_the_object_comes_first_and_then_the_axes() -> None:
    actual = added(Where(grid(), objects=OBJECTS[:1]))[0]
    y, x = grid()[0].unbind(1)
    expected = torch.cat([alone(OBJECTS[0], 8), alone(y, 4), alone(x, 4)], dim=1)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_the_preset_is_object_column_row_and_all_sines_before_the_cosines() -> None:
    actual = added(Where(grid(), objects=OBJECTS[:1]), preset="repo")[0]
    y, x = grid()[0].unbind(1)
    parts = [alone(OBJECTS[0], 8), alone(x, 4), alone(y, 4)]
    expected = torch.cat([half for part in parts for half in (part[:, ::2], part[:, 1::2])], dim=1)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_without_objects_all_is_background() -> None:
    assert torch.equal(added(Where(grid())), added(Where(grid(), objects=torch.zeros(1, 6).long())))
    assert not torch.equal(added(Where(grid())), added(Where(grid(), objects=OBJECTS[:1])))


def test_rows_that_share_their_places_have_objects_of_their_own() -> None:
    actual = added(Where(grid(), objects=OBJECTS), rows=2)
    for row, objects in zip(actual, OBJECTS):
        torch.testing.assert_close(row, added(Where(grid(), objects=objects[None]))[0], rtol=0, atol=0)


def test_padded_and_packed_tokens_keep_their_objects_and_those_without_a_place_get_nothing() -> None:
    positions = grid().expand(2, -1, -1)
    valid, placed = torch.arange(6) < torch.tensor([[6], [4]]), torch.arange(6) > torch.tensor([[-1], [0]])
    whole = added(Where(positions, objects=OBJECTS), rows=2)
    there = (valid & placed)[..., None]
    actual = added(Where(positions, valid=valid, placed=placed, objects=OBJECTS), rows=2)
    assert torch.equal(actual, whole.masked_fill(~there, 0))
    segment = torch.tensor([[0] * 6 + [1] * 4])
    packed = torch.cat([positions[:1], positions[1:, :4]], dim=1), torch.cat([OBJECTS[:1], OBJECTS[1:, :4]], dim=1)
    actual = added(Where(packed[0], segment=segment, objects=packed[1]))
    assert torch.equal(actual, torch.cat([whole[:1], whole[1:, :4]], dim=1))


@pytest.mark.parametrize("backbone", ["FactorizedTransformer", "PTv3"])
def test_every_backbone_tells_it_the_objects(backbone: str) -> None:
    torch.manual_seed(0)
    if backbone == "PTv3":
        model: Any = PTv3(
            2, 0.5, dict(type="ObjectSincos"), (1, 1), (16, 16), (2, 2), (1,), (16,), (2,), window=8, bits=8
        )
    else:
        model = FactorizedTransformer(2 * DIM, 1, 1, 2, 3, dict(type="ObjectSincos"))
    positions = torch.cartesian_prod(*[torch.arange(float(n)) for n in (2, 3, 2)])[None].expand(2, -1, -1)
    x = torch.randn(2, 12, 2 if backbone == "PTv3" else 2 * DIM)
    valid = torch.arange(12) < torch.tensor([[12], [9]])
    objects = torch.randint(0, 9, (2, 12))

    def features(objects: Tensor) -> Tensor:
        with torch.no_grad():
            return model.eval()(TokenSet(x, Where(positions, valid=valid, objects=objects))).features

    actual = features(objects)
    torch.testing.assert_close(actual, features(torch.where(valid, objects, 77)), rtol=0, atol=0)  # padding has none
    other = objects.clone()
    other[0, 7] += 1  # of the first sample alone
    changed = (features(other) - actual).abs().amax((1, 2))
    assert changed[0] > 1e-3
    assert changed[1] < 1e-5


def test_an_adapter_puts_a_class_token_before_them() -> None:
    adapter = Adapter()
    adapter.add_tokens(DIM, class_token=True)
    actual = adapter.with_tokens(torch.zeros(2, 6, DIM), grid().float(), grid=(2, 3), objects=OBJECTS).where.objects
    assert actual is not None
    assert actual.tolist() == [[0, *row] for row in OBJECTS.tolist()]
