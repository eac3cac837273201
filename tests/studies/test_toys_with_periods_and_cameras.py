"""Toys on a circle and with two cameras: the answers follow from the positions, and nothing else tells them."""

import math

import pytest
import torch
from torch import Generator, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab.experiment import Cell
from ndformer.studies.small import Reader, answers_to
from ndformer.studies.toys import cameras, circle
from ndformer.studies.toys.tasks import SIDE, WORDS


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("task", ["direction", "distance"])
def test_answers_on_a_circle_are_those_of_the_short_way(task, across):
    samples = circle.draw_samples(task, across, 2000, Generator().manual_seed(0))
    r = samples.positions[..., 0].double()
    assert r.min() >= 0
    assert r.max() < SIDE
    step = (r[:, 1] - r[:, 0] + SIDE / 2) % SIDE - SIDE / 2
    other = (r[:, 2] - r[:, 0] + SIDE / 2) % SIDE - SIDE / 2
    answer = step > 0 if task == "direction" else step.abs() < 1.5
    assert torch.equal(samples.targets, answer.long())
    crosses = ((r[:, 1] - r[:, 0]) - step).abs() > 1
    assert crosses.all() if across else not crosses.any()
    assert (
        ((step + other).abs() < 1e-5).all() if task == "direction" else ((step.abs() < 1.5) ^ (other.abs() < 1.5)).all()
    )
    assert 0.45 < samples.targets.double().mean() < 0.55


def test_bearings_and_lenses_are_those_of_the_cameras():
    samples = cameras.draw_samples("bearing", 2000, Generator().manual_seed(0))
    assert samples.cameras is not None
    rays = []
    for token in (0, -1):  # a point at depth 1 of each camera, in the frame of the world
        share = samples.positions[:, token] / cameras.PATCHES - 0.5
        point = torch.stack([share[:, 1], share[:, 0], torch.ones(2000), torch.ones(2000)], 1)
        rays.append(torch.linalg.solve(samples.cameras[:, token], point)[:, :3])
    here = torch.linalg.inv(samples.cameras[:, 0])
    center, down = here[:, :3, 3], here[:, :3, 1]
    a, b = (torch.nn.functional.normalize(_level(ray - center, down), dim=1) for ray in rays)
    right = (torch.linalg.cross(a, b) * down).sum(1)  # x right, y down, z ahead: from z to x is about y
    assert torch.equal(samples.targets, (right > 0).long())
    assert (math.sin(0.14) < right.abs()).all()
    step = samples.positions[:, -1, 1] - samples.positions[:, 0, 1]
    assert abs(torch.corrcoef(torch.stack([step, samples.targets.float()]))[0, 1]) < 0.06
    samples = cameras.draw_samples("lens", 200, Generator().manual_seed(0))
    assert samples.cameras is not None
    focal = samples.cameras[:, :, 0, :3].norm(dim=2)
    assert torch.equal(samples.targets, (focal[:, 0] > focal[:, -1]).long())


def _level(ray, down):
    return ray - (ray * down).sum(1, keepdim=True) * down


@pytest.mark.parametrize("row", cameras.ENCODINGS)
def test_only_encodings_with_cameras_see_them(row):
    torch.manual_seed(0)
    samples = cameras.draw_samples("bearing", 20, Generator().manual_seed(0))
    assert samples.cameras is not None
    reader = Reader(nn.Embedding(WORDS, 48), 2, samples, parse_encoding(cameras.ENCODINGS[row]), readout="mean")
    other = samples._replace(cameras=samples.cameras.roll(1, 0))
    change = (answers_to(reader, other) - answers_to(reader, samples)).abs().max()
    assert change > 1e-3 if row in cameras.WITH_CAMERAS else change == 0


@pytest.mark.parametrize(
    "module, row", [(circle, "PaPE, circle"), (circle, circle.CONTROLS[1]), (cameras, cameras.CONTROLS[0])]
)
def test_a_cell_has_every_column_reproducibly(module, row, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TEST", 40)
    values = module.measure(Cell(row, 3, "small", tmp_path), steps=3)
    assert set(values) == set(module.COLUMNS)
    assert module.measure(Cell(row, 3, "small", tmp_path), steps=3) == values
