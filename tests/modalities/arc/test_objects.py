"""Components and boxes of grids: against those of scipy."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import find_objects, label

from ndformer.modalities.arc.objects import box_numbers, boxes, components


def labeled(mask, corners):
    """Numbers of components in the order of reading."""
    found: Any = label(mask, np.ones((3, 3)) if corners else None)
    return found[0]


def masks(count, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((count, *shape)) < rng.uniform(0.2, 0.9, (count, 1, 1))


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (8, 5), (30, 30)])
def test_components_are_those_of_scipy(shape, corners):
    some = masks(6, shape)
    found = components(torch.from_numpy(some), corners)
    assert np.array_equal(found.numpy(), np.stack([labeled(mask, corners) for mask in some]))


def test_a_spiral_is_one_component():
    spiral = np.zeros((31, 31), bool)
    spiral[::4] = True
    spiral[1::4, -1] = spiral[2::4, -1] = spiral[3::8, -1] = True
    spiral[1::8, -1] = spiral[2::8, -1] = spiral[3::8, -1] = True
    spiral[5::8, :1] = spiral[6::8, :1] = spiral[7::8, :1] = True
    spiral[5::8, -1] = spiral[6::8, -1] = spiral[7::8, -1] = False
    assert np.array_equal(components(torch.from_numpy(spiral)[None], False)[0].numpy(), labeled(spiral, False))
    assert components(torch.from_numpy(spiral)[None], False).max() == 1


def test_a_cell_is_of_its_own_box_and_the_background_of_the_smallest():
    some = masks(8, (9, 12), seed=1)
    found = box_numbers(torch.from_numpy(some)).numpy()
    for mask, numbers in zip(some, found):
        own = labeled(mask, True)
        assert np.array_equal(numbers[mask], own[mask])
        for y, x in np.argwhere(~mask):
            areas = {}
            for number, (rows, columns) in enumerate(find_objects(own), 1):
                if rows.start <= y < rows.stop and columns.start <= x < columns.stop:
                    areas[number] = (rows.stop - rows.start) * (columns.stop - columns.start)
            assert areas.get(numbers[y, x], 0) == min(areas.values(), default=0)


def test_boxes_of_grids_with_few_and_many_components():
    some = np.zeros((2, 4, 5), bool)
    some[0, 1:3, 2:4] = some[1, 0, 0] = some[1, 3, 2:] = True
    found = boxes(components(torch.from_numpy(some)))
    assert found[0, 0].tolist() == [1, 2, 2, 3]
    assert found[1].tolist() == [[0, 0, 0, 0], [3, 2, 3, 4]]
    top, _, bottom, _ = found[0, 1].tolist()
    assert top > bottom  # there is no second one
    assert box_numbers(torch.zeros(2, 3, 3, dtype=torch.bool)).tolist() == np.zeros((2, 3, 3)).tolist()
