"""Token dropping in training: which tokens remain, where they are, and that evaluation has all."""

from typing import Any

import pytest
import torch

from ndformer.framework.model import TokenModel
from ndformer.framework.registry import MODALITIES
from ndformer.framework.system import processes
from ndformer.modalities.image.token_drop import remaining, remaining_tokens


def adapter(share: float, **options: Any) -> Any:
    torch.manual_seed(0)
    return MODALITIES.create(dict(type="ImagePatches", patch=4, drop_tokens=share, registers=1, **options), dim=6)


def test_a_seed_draws_the_same_tokens_in_order_and_each_as_often():
    torch.manual_seed(1)
    first = remaining_tokens([10, 4, 1], 0.5, torch.zeros(()))
    torch.manual_seed(1)
    assert torch.equal(first, remaining_tokens([10, 4, 1], 0.5, torch.zeros(())))
    assert first.tolist() == sorted(set(first.tolist()))
    assert [((first >= a) & (first < b)).sum().item() for a, b in ((0, 10), (10, 14), (14, 15))] == [5, 2, 1]
    draws = torch.stack([remaining_tokens([10], 0.3, torch.zeros(())) for _ in range(1000)])
    assert draws.shape == (1000, 7)
    assert (draws.flatten().bincount() - 700).abs().max() < 70  # 5 standard deviations
    assert [remaining(1, 0.9), remaining(10, 0.0), remaining(10, 0.25)] == [1, 10, 8]


def test_two_processes_have_the_tokens_of_one(monkeypatch):
    like, counts = torch.zeros(()), [10, 10, 10, 10]
    torch.manual_seed(0)
    whole = remaining_tokens(counts, 0.5, like).view(4, 5)
    monkeypatch.setattr(processes, "count", lambda: 2)
    for rank in (0, 1):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        torch.manual_seed(0)
        part = remaining_tokens(counts[:2], 0.5, like).view(2, 5)
        assert torch.equal(part + 20 * rank, whole[2 * rank : 2 * rank + 2])
    assert len({tuple((row - 10 * i).tolist()) for i, row in enumerate(whole)}) > 1


@pytest.mark.parametrize("packed", [False, True])
def test_remaining_tokens_are_those_of_the_image_at_their_places(packed):
    made, whole = adapter(0.4), adapter(0.0)
    images = torch.randn(2, 3, 12, 20, generator=torch.Generator().manual_seed(2))
    tokens, every = made(list(images) if packed else images), whole(list(images) if packed else images)
    assert made.count_tokens((12, 20)) == 2 + 9
    assert tokens.where.grid is None
    assert tokens.where.grids is None
    assert tokens.features.shape[:2] == ((1, 22) if packed else (2, 11))
    rows = torch.cat(
        [every.features.flatten(0, 1), every.where.positions.expand_as(every.features[..., :2]).flatten(0, 1)], 1
    )
    remaining_rows = torch.cat([tokens.features.flatten(0, 1), tokens.where.positions.flatten(0, 1)], 1)
    assert all((rows - row).abs().sum(1).min() < 1e-6 for row in remaining_rows)
    assert len(remaining_rows.unique(dim=0)) == 2 * 9 + 2  # no token twice but for the class token and the register
    again = made(list(images) if packed else images)
    assert not torch.equal(again.where.positions, tokens.where.positions)
    left = made.eval()(images)
    assert left.where.grid == (3, 5)
    torch.testing.assert_close(left.features, whole(images).features, rtol=0, atol=0)


@pytest.mark.parametrize("encoding", [dict(type="CPE"), [dict(type="PaPE"), dict(type="LogCPB")]])
@pytest.mark.parametrize("option", [dict(drop_tokens=0.5), dict(plane=[(0, 0), (1, 0), (0, 1)])])
def test_an_encoding_that_needs_a_grid_is_refused_with_the_option_that_leaves_none(encoding, option):
    (name,) = option
    with pytest.raises(ValueError, match=rf"modalities\.image: {name} leaves no grid, and (CPE|LogCPB) requires one"):
        TokenModel(
            dict(image=dict(type="ImagePatches", patch=4, **option)),
            dict(type="Transformer", dim=12, depth=1, heads=2, position_dims=2, encoding=encoding),
            dict(type="Classifier", classes=3),
        )


@pytest.mark.parametrize("encoding", ["PaPE", "RoPEMixed"])
def test_a_batch_of_rectangles_trains_without_some_of_its_tokens(encoding):
    torch.manual_seed(0)
    model = TokenModel(
        dict(image=dict(type="ImagePatches", patch=4, drop_tokens=0.5)),
        dict(type="Transformer", dim=12, depth=1, heads=2, position_dims=2, encoding=dict(type=encoding)),
        dict(type="Classifier", classes=3),
    )
    images = [torch.randn(3, 4, 8), torch.randn(3, 12, 8), torch.randn(3, 4, 4)]
    assert model.tokens(images).features.shape[1] == 1 + 3 + 1 + 3 * 1
    model(images, [dict(label=i) for i in range(3)], mode="loss")["loss"].backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
