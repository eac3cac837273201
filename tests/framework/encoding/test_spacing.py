"""How far apart tokens stand, measured on grids and on free tokens, with padding, packing and unplaced ones aside."""

import itertools

import pytest
import torch

from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.tokens import Where


def spacing(where: Where, *factors: float) -> Spacing:
    found = Spacing.measure([where], factors or (1.0,) * where.positions.shape[2])
    assert found is not None
    return found


def grid(*sizes: int) -> torch.Tensor:
    return torch.tensor([*itertools.product(*(range(n) for n in sizes))], dtype=torch.float32)[None]


def test_a_grid_has_steps_its_nearest_cells_and_its_longest_side():
    where = Where(grid(3, 5) * torch.tensor([10.0, 2.0]), grid=(3, 5))
    found = spacing(where)
    assert found.unit == pytest.approx((10, 2))
    assert (found.nearest, found.extent) == (2, 20)
    assert spacing(where, 0.1, 0.5).nearest == pytest.approx(1)


@pytest.mark.parametrize("sizes", [(64, 16), (40, 8, 8)])
def test_the_extent_of_a_large_grid_is_that_of_all_its_cells(sizes):
    """It was that of the last 512."""
    assert spacing(Where(grid(*sizes), grid=sizes)).extent == sizes[0] - 1


def test_an_axis_with_one_cell_has_a_step_of_one():
    assert spacing(Where(grid(1, 4) * 3, grid=(1, 4))).unit == (1, 3)


def test_free_tokens_get_units_in_which_axes_are_alike_and_neighbors_one_apart():
    torch.manual_seed(0)
    positions = torch.rand(4, 60, 3) * torch.tensor([1e-3, 1.0, 1e6])
    units = spacing(Where(positions)).unit
    after = spacing(Where(positions), *[1 / unit for unit in units])
    assert after.nearest == pytest.approx(1, rel=1e-5)
    assert after.unit == pytest.approx((1, 1, 1), rel=1e-5)


def test_a_large_cloud_is_measured_from_end_to_end():
    torch.manual_seed(0)
    r = torch.rand(1, 5000, 2) * torch.tensor([100.0, 1.0])
    r = r[:, r[0, :, 0].argsort()]  # its first tokens are at one end
    along, across = spacing(Where(r)).unit
    assert along / across == pytest.approx(100, rel=0.2)


def test_padding_unplaced_tokens_and_other_samples_of_a_row_are_not_looked_at():
    positions = torch.tensor([[[0.0], [500.0], [2.0], [4.0], [900.0], [100.0], [102.0]]])
    placed = torch.arange(7)[None] != 1
    valid = torch.arange(7)[None] != 4
    assert spacing(Where(positions, valid=valid, placed=placed)).extent == 102
    found = spacing(Where(positions, valid=valid, placed=placed, segment=torch.tensor([[0, 0, 0, 0, 0, 1, 1]])))
    assert (found.nearest, found.extent) == (2, 3)  # 4 in one sample and 2 in the other


def test_the_nearest_distance_is_the_median_over_tokens():
    assert spacing(Where(torch.tensor([[[0.0], [1.0], [11.0], [31.0], [51.0]]]))).nearest == 10


def test_tokens_at_one_place_are_no_neighbors():
    assert spacing(Where(torch.tensor([[[0.0], [0.0], [3.0], [3.0]]]))).nearest == 3


@pytest.mark.parametrize("positions", [torch.zeros(2, 5, 2), torch.zeros(1, 1, 2)])
def test_where_all_is_at_one_place_there_is_nothing_to_measure(positions):
    assert Spacing.measure([Where(positions)], (1.0, 1.0)) is None
