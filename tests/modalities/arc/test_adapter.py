"""Grids to tokens: a symbol for each cell, where it is, of which object; every encoding reads them."""

import json

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.modalities.arc.adapter import GridCells
from ndformer.modalities.arc.formats.canvas import END, END_COLUMN, END_ROW, PAD, SYMBOLS, laid
from ndformer.modalities.arc.formats.tasks import Pair, write_task
from ndformer.modalities.arc.generators import TASKS
from ndformer.modalities.arc.transforms.grids import PackGrid

GRID = np.array([[0, 3, 0], [0, 3, 5]], np.uint8)


def canvases(count=2, side=9):
    return torch.stack(
        [torch.from_numpy(laid(TASKS["boxes"].pair(np.random.default_rng(i)).input, side)) for i in range(count)]
    )


def test_a_canvas_holds_the_grid_its_border_and_padding():
    assert laid(GRID, 5).tolist() == [
        [0, 3, 0, END_ROW, PAD],
        [0, 3, 5, END_ROW, PAD],
        [END_COLUMN, END_COLUMN, END_COLUMN, END, PAD],
        [PAD] * 5,
        [PAD] * 5,
    ]
    with pytest.raises(DataError, match="a grid of 2 x 3 cells and its border do not fit on a canvas of 3 x 3"):
        laid(GRID, 3)


def test_tokens_are_symbols_at_rows_and_columns():
    adapter, some = GridCells(6), canvases()
    found = adapter(some)
    assert found.where.grid == (9, 9)
    assert found.where.positions.shape == (1, 81, 2)
    for n in (0, 7, 58, 80):
        assert found.where.positions[0, n].tolist() == [n // 9, n % 9]
        assert torch.equal(found.features[1, n], adapter.symbols.weight[int(some[1, n // 9, n % 9])])


def test_objects_are_boxes_around_colored_cells_without_borders():
    objects = GridCells(6)(torch.from_numpy(laid(GRID, 5))[None]).where.objects
    assert objects is not None
    assert objects.view(5, 5).tolist() == [[0, 1, 1, 0, 0], [0, 1, 1, 0, 0], *[[0] * 5] * 3]


def test_the_object_as_an_axis_comes_first():
    plain, axis = GridCells(6)(canvases()), GridCells(6, object_axis=True)(canvases())
    assert plain.where.objects is not None
    assert torch.equal(axis.where.positions[..., 0], plain.where.objects.float())
    assert torch.equal(axis.where.positions[..., 1:], plain.where.positions.expand(2, -1, -1))
    assert axis.where.grid is None


def model(encoding, object_axis=False):
    torch.manual_seed(0)
    return TokenModel(
        modalities=dict(arc=dict(type="GridCells", object_axis=object_axis)),
        backbone=dict(
            type="Transformer", dim=32, depth=2, heads=2, position_dims=3 if object_axis else 2, encoding=encoding
        ),
        head=dict(type="CellReader", classes=len(SYMBOLS)),
    )


@pytest.mark.parametrize("object_axis", [False, True])
@pytest.mark.parametrize("name", ["NoPE", "Sincos", "ObjectSincos", "PEMixer", "DirectionalRPE", "PaPE", "AxialRoPE"])
def test_every_encoding_reads_them_and_grids_do_not_disturb_each_other(name, object_axis):
    some, net = canvases(3), model(dict(type=name), object_axis).eval()
    together = net(dict(arc=some))
    assert together.shape == (3, 81, len(SYMBOLS))
    torch.testing.assert_close(net(dict(arc=some[1:2]))[0], together[1], rtol=1e-4, atol=1e-5)


def test_objects_reach_the_answer_through_ope_alone():
    """Two canvases with the same cells but for one far away that joins two objects."""
    one = np.zeros((6, 6), np.uint8)
    one[0, [0, 2]] = 4
    for name, differs in (("ObjectSincos", True), ("Sincos", False)):
        tables = []
        for joined in (0, 4):
            one[0, 1] = joined
            where = model(dict(type=name)).modalities["arc"](torch.from_numpy(laid(one, 7))[None]).where
            tables.append(where)
        net = model(dict(type=name)).backbone.encoding
        x = torch.zeros(1, 49, 32)
        first, second = (net.embed(x, net.prepare(where))[0, 2] for where in tables)
        assert bool((first - second).abs().max() > 1e-3) == differs


def test_a_pair_is_packed_and_a_file_is_opened(tmp_path):
    packed = PackGrid(5)(dict(arc=GRID, output=GRID.T, path="a"), np.random.default_rng(0))
    assert np.array_equal(packed["inputs"]["arc"].numpy(), laid(GRID, 5))
    assert np.array_equal(packed["data_sample"]["labels"].numpy(), laid(GRID.T, 5))
    assert packed["data_sample"]["path"] == "a"
    assert "labels" not in PackGrid(5)(dict(arc=GRID), np.random.default_rng(0))["data_sample"]
    write_task(tmp_path / "a.json", dict(train=[Pair(GRID.T, GRID)], test=[Pair(GRID, None)]))
    assert json.loads((tmp_path / "a.json").read_text())["test"][0]["output"] is None
    assert np.array_equal(GridCells(6).open(tmp_path / "a.json")["arc"], GRID)


def test_pictures_of_grids_and_of_tokens():
    pack = PackGrid(5)
    sample = pack(dict(arc=GRID), np.random.default_rng(0))
    for held in (sample, dict(arc=GRID)):
        assert pack.picture(held, 64).dtype == np.uint8
    assert pack.picture(dict(arc=GRID), 64).shape[:2] == (40, 60)
    (shown,) = GridCells(6).pictures(sample, pack)
    assert shown.shape == (100, 220, 3)
    assert (shown[5, 125] == 255).all()  # of no object
    assert not (shown[5, 125 + 20] == 255).all()
