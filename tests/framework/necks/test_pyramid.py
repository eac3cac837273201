"""Maps from tokens: grids, the latest token of a cell, and the levels of a pyramid."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.necks.pyramid import grid_map, latest_map
from ndformer.framework.registry import NECKS
from ndformer.framework.tokens import TokenSet, Where


def grid(*shape, prefix=0, dim=8, batch=2):
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.float32) for n in shape), indexing="ij")
    positions = torch.cat([torch.zeros(prefix, len(shape)), torch.stack(axes, -1).flatten(0, -2)])
    g = torch.Generator().manual_seed(0)
    return TokenSet(torch.randn(batch, len(positions), dim, generator=g), Where(positions[None], grid=shape))


def test_a_grid_is_its_own_map_without_prefix_tokens():
    tokens = grid(3, 4, prefix=2)
    assert torch.equal(grid_map(tokens)[1, :, 2, 1], tokens.features[1, 2 + 2 * 4 + 1])
    assert torch.equal(grid_map(grid(3, 3, 4)), grid_map(TokenSet(grid(3, 3, 4).features[:, 24:], grid(3, 4).where)))


def test_tokens_without_a_grid_need_cells():
    tokens = TokenSet(torch.zeros(1, 2, 8), Where(torch.zeros(1, 2, 2)))
    with pytest.raises(ValueError, match=r"Set cells=\(rows, columns\) of the neck"):
        grid_map(tokens)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30), st.booleans(), st.booleans())
def test_the_latest_token_of_a_cell_makes_the_map(seed, count, timed, ages):
    g = torch.Generator().manual_seed(seed)
    positions = torch.rand(2, count, 3, generator=g) * torch.tensor([1.0, 7, 9]) - torch.tensor([0.0, 1, 1])
    positions[..., 0] = (positions[..., 0] * 4).floor()  # equal times
    positions = positions if timed else positions[..., 1:]
    valid = torch.rand(2, count, generator=g) < 0.8
    tokens = TokenSet(torch.randn(2, count, 4, generator=g), Where(positions, valid=valid))
    expected, sign = torch.zeros(2, 4, 3, 4), -1 if ages else 1
    for b in range(2):
        order = range(count) if not timed else sorted(range(count), key=lambda i: (sign * float(positions[b, i, 0]), i))
        for i in order:
            row, column = (positions[b, i, -2:] / 2).floor().long().tolist()
            if valid[b, i] and 0 <= row < 3 and 0 <= column < 4:
                expected[b, :, row, column] = tokens.features[b, i]
    assert torch.equal(latest_map(tokens, (3, 4), 2.0, ages), expected)


@pytest.mark.parametrize("reduced", [False, True])
def test_levels_keep_the_last_row_and_column_of_odd_grids(reduced):
    neck = NECKS.create(dict(type="SimpleFeaturePyramid", width=6, reduced=reduced), dim=8)
    tokens = grid(5, 7)
    maps = neck(tokens)
    assert [tuple(x.shape) for x in maps] == [(2, 6, 10, 14), (2, 6, 5, 7), (2, 6, 3, 4)]
    changed = tokens.features.clone()
    changed[:, -1] += 5
    assert not torch.equal(neck(TokenSet(changed, tokens.where))[2][..., -1, -1], maps[2][..., -1, -1])


def test_sparse_tokens_make_the_same_levels_as_the_grid_that_they_fill():
    tokens = grid(4, 4)
    sparse = TokenSet(tokens.features.flip(1), Where(tokens.where.positions.flip(1)))
    torch.manual_seed(0)
    one = NECKS.create(dict(type="SimpleFeaturePyramid", width=6), dim=8)
    other = NECKS.create(dict(type="SimpleFeaturePyramid", width=6, cells=(4, 4)), dim=8)
    other.load_state_dict(one.state_dict())
    for a, b in zip(one(tokens), other(sparse)):
        torch.testing.assert_close(a, b)


def test_vitdets_levels_in_parameters():
    """Width 256 on 768 channels, counted by hand: 1 x 1 and 3 x 3 without bias, norms with scale and shift."""
    neck = NECKS.create(dict(type="SimpleFeaturePyramid", scales=(4, 2, 1, 0.5)), dim=768)
    out = lambda channels: channels * 256 + 9 * 256 * 256 + 4 * 256
    up = 768 * 384 * 4 + 384
    expected = [up + 2 * 384 + 384 * 192 * 4 + 192 + out(192), up + out(384), out(768), out(768)]
    assert [sum(p.numel() for p in level.parameters()) for level in neck.levels] == expected


def test_a_scale_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"scales expects 2, 1, 0\.5, got 4"):
        NECKS.create(dict(type="SimpleFeaturePyramid", scales=(4, 2), reduced=True), dim=8)
