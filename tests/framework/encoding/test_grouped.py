"""Packed rows by groups: each sample gets what it gets alone, in any order, with padding and grids or without."""

from typing import Any

import pytest
import torch
from torch import Tensor

import ndformer.framework.kernels.sdpa as sdpa_module
from ndformer.framework.attention_maps import record_attention
from ndformer.framework.encoding.grouped import GroupedState, prepare
from ndformer.framework.tokens import TokenSet, Where, packed_rows
from ndformer.framework.transformer import Transformer
from tests.framework.helpers import spy

DIM, HEADS = 16, 2


def network(name: str, **options: Any) -> Transformer:
    torch.manual_seed(0)
    return Transformer(DIM, 2, HEADS, 2, dict(type=name, **options))


def cells(*grid: int) -> Tensor:
    return torch.cartesian_prod(*(torch.arange(float(n)) for n in grid))


def packed(grids: list[tuple[int, int]], prefix: int = 0, known: bool = True) -> tuple[TokenSet, list[TokenSet]]:
    """Samples in one packed row, each with `prefix` unplaced tokens, and the same samples one by one."""
    torch.manual_seed(1)
    places = [torch.cat([torch.zeros(prefix, 2), cells(*grid)]) for grid in grids]
    placed = [torch.arange(len(r)) >= prefix for r in places]
    x = [torch.randn(len(r), DIM) for r in places]
    segment = torch.cat([torch.full((len(r),), i) for i, r in enumerate(places)])[None]
    fields: dict[str, Any] = dict(
        placed=torch.cat(placed)[None], segment=segment, grids=tuple(grids) if known else None
    )
    row = TokenSet(torch.cat(x)[None], Where(torch.cat(places)[None], **fields))
    alone = [TokenSet(t[None], Where(r[None], placed=p[None], grid=g)) for t, r, p, g in zip(x, places, placed, grids)]
    return row, alone


@pytest.mark.parametrize("name", ["NoPE", "PaPE", "ALiBi", "AxialRoPE", "CPE", "SaPE2", "LogCPB", "LearnableAbsolute"])
@pytest.mark.parametrize("prefix", [0, 2])
def test_samples_in_any_order_equal_each_alone(name: str, prefix: int) -> None:
    """Groups that are slices, groups between each other, and samples of few tokens in padded groups."""
    model = network(name)
    for grids in (
        [(1, 2), (1, 2), (2, 1), (5, 9), (5, 9)],
        [(12, 12), (2, 3), (9, 16), (1, 1), (12, 12), (5, 9), (3, 2)],
    ):
        row, alone = packed(grids, prefix)
        y = model(row).features[0]
        expected = torch.cat([model(one).features[0] for one in alone])
        torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-5)


def test_padding_and_several_rows_need_no_grids() -> None:
    model, segment = network("PaPE"), torch.tensor([[4, 4, 4, -1, 7, 7, 7, 7], [-1, 2, 2, 2, 2, 2, 2, -1]])
    r, x = torch.rand(2, 8, 2) * 5, torch.randn(2, 8, DIM)
    y = model(TokenSet(x, Where(r, segment=segment))).features
    for sample in (2, 4, 7):
        own = segment == sample
        torch.testing.assert_close(y[own], model(TokenSet(x[own][None], Where(r[own][None]))).features[0])
    assert isinstance(prepare(model.encoding, Where(r, segment=segment)), GroupedState)  # type: ignore[arg-type]


def test_large_samples_on_a_grid_have_their_bias_as_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a grid PaPE's parabolas would need a table of all pairs at this extent."""
    features = spy(monkeypatch, sdpa_module, "features")
    row, _ = packed([(24, 24), (18, 30), (24, 24)], 1)
    model = Transformer(64, 2, 1, 2, dict(type="PaPE"))
    model(TokenSet(torch.randn(1, row.features.shape[1], 64), row.where))
    assert len(features) == 2 * 2  # groups and layers
    groups = row.where.cut
    assert groups is not None
    assert [part.grid for _, part in groups] == [(24, 24), (18, 30)]
    assert [part.positions.shape[0] for _, part in groups] == [1, 1]  # samples of one size share their positions


def test_grids_are_known_without_values() -> None:
    """As on a GPU: nothing is read, and encodings that need a grid get one."""
    row, alone = packed([(2, 3), (4, 1), (2, 3)], 1)
    with torch.device("meta"):
        where = row.where.to("meta")
    groups = packed_rows(where, by_grid=True)
    assert [(rows.spans, part.grid) for rows, part in groups] == [(((0, 7), (12, 7)), (2, 3)), (((7, 5),), (4, 1))]
    state = prepare(network("LearnableAbsolute").encoding.to("meta"), where)  # type: ignore[arg-type]
    assert isinstance(state, GroupedState)
    assert state.order is not None


def test_recorded_maps_are_of_whole_rows() -> None:
    row, alone = packed([(2, 3), (3, 3)])
    model = network("PaPE")
    with record_attention(model) as maps:
        model(row)
    attention = maps[1].attention()[0]
    assert (attention[:, :6, 6:] == 0).all()
    with record_attention(model) as single:
        model(alone[1])
    torch.testing.assert_close(attention[:, 6:, 6:], single[1].attention()[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("grids", [((1, 2), (2, 1)), ((1, 5), (1, 2)), ((5,), (1,)), ((2, 2), (7, 1))])
def test_wrong_grids_are_refused(grids: tuple[tuple[int, ...], ...]) -> None:
    segment = torch.tensor([[0, 0, 0, 1, 1, 1]])
    fine = Where(torch.zeros(1, 6, 2), segment=segment, grids=((1, 2), (2, 1)))
    assert fine.grids is not None
    if grids == fine.grids:
        segment = None  # one row, of two samples
    with pytest.raises(
        ValueError, match=r"grids must have one grid for each sample, of packed rows without padding or"
    ):
        Where(torch.zeros(1, 6, 2), segment=segment, grids=grids)
