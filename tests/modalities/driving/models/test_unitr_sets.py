"""UniTR's windows and sets against a slow implementation of the formula, token by token."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndformer.modalities.driving.models.unitr.sets import by_length, partition

few = settings(max_examples=60, deadline=None, derandomize=True)


def slow(
    cells: list[list[int]], group: list[int], window: tuple[int, int], shift: tuple[int, int], size: int, major: int
) -> tuple[list[list[int]], list[list[bool]]]:
    """Return tokens and masks of all sets, with windows in ascending order of (group, x, y)."""
    windows: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
    for token, ((x, y), g) in enumerate(zip(cells, group)):
        wx, wy = math.floor((x + shift[0]) / window[0]), math.floor((y + shift[1]) / window[1])
        inside = (x + shift[0] - wx * window[0], y + shift[1] - wy * window[1])
        windows.setdefault((g, wx, wy), []).append((inside[major], inside[1 - major], token))
    sets, masks = [], []
    for _, tokens in sorted(windows.items()):
        ordered, n = [token for *_, token in sorted(tokens)], len(tokens)
        S = math.ceil(n / size)
        for j in range(S):
            row = [ordered[(size * j + i) * n // (size * S)] for i in range(size)]
            sets.append(row)
            masks.append([i == 0 or row[i] != row[i - 1] for i in range(size)])
    return sets, masks


def cloud(seed: int, tokens: int, side: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.randint(-side, side, (tokens, 2)), torch.randint(0, 3, (tokens,))


@few
@given(
    st.integers(0, 2**31),
    st.integers(0, 300),
    st.sampled_from([1, 4, 40]),
    st.sampled_from([(30, 30), (3, 5), (1, 1)]),
    st.sampled_from([1, 7, 90]),
    st.booleans(),
    st.sampled_from([0, 1]),
)
def test_sets_and_masks_are_those_of_the_formula(seed, tokens, side, window, size, moved, major):
    cells, group = cloud(seed, tokens, side)
    shift = (window[0] // 2, window[1] // 2) if moved else (0, 0)
    rows = partition(cells, group, window, shift, size, major)
    sets, masks = slow(cells.tolist(), group.tolist(), window, shift, size, major)
    assert rows.index.tolist() == sets
    assert rows.valid.tolist() == masks


@few
@given(st.integers(0, 2**31), st.integers(1, 700), st.sampled_from([1, 30]))
def test_each_token_is_in_exactly_one_slot(seed, tokens, side):
    cells, group = cloud(seed, tokens, side)
    rows = partition(cells, group, (30, 30), (15, 15), 90, 1)
    assert rows.index[rows.valid].sort().values.tolist() == list(range(tokens))
    assert rows.valid[:, 0].all()
    x = torch.randn(tokens, 3)
    assert torch.equal(rows.scatter(rows.gather(x), tokens), x)


def test_batch_mates_and_earlier_calls_change_no_set():
    cells, group = cloud(0, 400, 40)
    alone = partition(cells[group == 1], group[group == 1] * 0, (30, 30), (15, 15), 90, 0)
    own = (group == 1).nonzero().squeeze(1)
    among = partition(cells, group, (30, 30), (15, 15), 90, 0)
    mine = (group[among.index] == 1).all(1)
    assert torch.equal(among.index[mine], own[alone.index])
    assert torch.equal(among.valid[mine], alone.valid)


@pytest.mark.parametrize("major", [0, 1])
def test_the_order_in_which_cells_come_changes_no_set(major):
    torch.manual_seed(0)
    cells = torch.cartesian_prod(torch.arange(40), torch.arange(40))[torch.randperm(1600)[:700]]
    order = torch.randperm(700)
    one = partition(cells, torch.zeros(700).long(), (30, 30), (0, 0), 90, major)
    other = partition(cells[order], torch.zeros(700).long(), (30, 30), (0, 0), 90, major)
    assert torch.equal(one.index, order[other.index])


@pytest.mark.parametrize("size", [1, 7, 90])
def test_sets_without_their_empty_slots_are_the_same_sets(size):
    cells, group = cloud(0, 500, 20)
    rows = partition(cells, group, (10, 10), (5, 5), size, 0)
    told = lambda some: [row[there].tolist() for row, there in zip(some.index, some.valid)]
    groups = by_length(rows)
    assert sorted(one for some in groups for one in told(some)) == sorted(told(rows))
    assert len(groups) <= 4
    for some in groups:
        counts = some.valid.sum(1)
        assert some.valid.shape[1] == counts.max()
        assert counts.max() - counts.min() <= size / 4
    assert by_length(partition(cells[:0], group[:0], (10, 10), (0, 0), size, 0)) == []
