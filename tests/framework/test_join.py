"""Joined token sets: side by side in each row, with modalities, masks and a grid where they still hold."""

from typing import Any

import pytest
import torch

from ndformer.framework.tokens import TokenSet, Where, join
from tests.framework.test_tokens import bools, listed


def tokens(n: int, dims: int = 2, channels: int = 4, rows: int = 2, **where: Any) -> TokenSet:
    return TokenSet(torch.randn(rows, n, channels), Where(torch.randn(rows, n, dims), **where))


def test_join_lays_sets_side_by_side_and_numbers_them() -> None:
    a, b, c = tokens(3), tokens(2), tokens(1)
    joined = join(a, b, c)
    assert torch.equal(joined.features, torch.cat([a.features, b.features, c.features], dim=1))
    assert torch.equal(joined.where.positions, torch.cat([s.where.positions for s in (a, b, c)], dim=1))
    assert joined.modality is not None
    assert joined.modality.dtype == torch.int64
    assert joined.modality.tolist() == [[0, 0, 0, 1, 1, 2]] * 2
    assert joined.where.valid is joined.where.placed is joined.where.segment is None


def test_join_keeps_modalities_that_sets_bring_and_refuses_half_of_them() -> None:
    a = TokenSet(torch.zeros(1, 2, 4), Where(torch.zeros(1, 2, 2)), torch.tensor([[5, 6]]))
    b = TokenSet(torch.zeros(1, 1, 4), Where(torch.zeros(1, 1, 2)), torch.tensor([[7]]))
    assert listed(join(a, b).modality) == [[5, 6, 7]]
    with pytest.raises(ValueError, match="either all joined sets must have a modality"):
        join(a, tokens(1, rows=1))


def test_join_fills_masks_that_one_set_lacks() -> None:
    a = tokens(2, valid=bools([1, 0], [1, 1]))
    b = tokens(2, placed=bools([0, 1], [1, 1]), objects=torch.tensor([[4, 2], [1, 1]]))
    where = join(a, b).where
    assert listed(where.objects) == [[0, 0, 4, 2], [0, 0, 1, 1]]
    assert listed(where.valid) == [[True, False, True, True], [True] * 4]
    assert listed(where.placed) == [[True, True, False, True], [True] * 4]


def test_join_repeats_what_rows_share() -> None:
    shared = TokenSet(torch.zeros(3, 2, 4), Where(torch.tensor([[[1.0], [2.0]]]), placed=bools([0, 1])))
    own = TokenSet(torch.ones(3, 1, 4), Where(torch.tensor([[[5.0]], [[6.0]], [[7.0]]])))
    joined = join(shared, own)
    assert joined.features.shape == (3, 3, 4)
    assert joined.where.positions.flatten(1).tolist() == [[0, 2, 5], [0, 2, 6], [0, 2, 7]]
    assert listed(joined.where.placed) == [[False, True, True]] * 3


def test_join_keeps_the_grid_that_ends_a_row_unless_there_is_padding() -> None:
    prefix, image = tokens(1, placed=bools([0], [0])), tokens(6, grid=(2, 3))
    assert join(prefix, image).where.grid == (2, 3)
    assert join(image, tokens(1)).where.grid is None
    assert join(tokens(6, grid=(3, 2)), image).where.grid == (2, 3)
    assert join(tokens(1, valid=bools([1], [0])), image).where.grid is None


def test_join_refuses_what_has_no_common_space_width_or_row() -> None:
    with pytest.raises(ValueError, match=r"same position dimensions, got 2 and 3\. Place both in one space"):
        join(tokens(2), tokens(2, dims=3))
    with pytest.raises(ValueError, match="same channels, got 4 and 5"):
        join(tokens(2), tokens(2, channels=5))
    with pytest.raises(ValueError, match="Join before packing"):
        join(tokens(2), tokens(2, segment=torch.tensor([[0, 1], [0, 1]])))
