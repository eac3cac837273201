"""Grids of heat maps."""

from typing import Any

import numpy as np

from ndformer.framework.pictures.figures import Panels, heat_maps


def test_maps_stand_in_rows_and_columns_and_are_ringed():
    rng = np.random.default_rng(0)
    blocks = [
        Panels("bias", rng.normal(size=(1, 2, 4, 5)), "signed"),
        Panels("share", rng.random((1, 2, 4, 5)), "share"),
    ]
    figure = heat_maps("maps", blocks, ["query"], ["head 1", "head 2"], [[(1.0, 2.0), None]])
    maps: list[Any] = [axis for axis in figure.axes if axis.images]
    assert [axis.images[0].get_array().shape for axis in maps] == [(4, 5)] * 4
    assert [len(axis.lines) for axis in maps] == [2, 0, 2, 0]
