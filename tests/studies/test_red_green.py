"""Red-green images of the thesis, and the probes of Table 2."""

import pytest
import torch

from ndformer.studies.small import accuracy
from ndformer.studies.thesis.probes import direction_probe, distance_probe, logistic
from ndformer.studies.thesis.red_green import SIDE, TEST, TRAIN, grid_positions, images, to_test, train_reader


def places(samples, color):
    """Return row and column of the square with this color, (B, 2)."""
    patches = samples.tokens.view(len(samples.tokens), SIDE**2, 16, 3).mean(2)
    index = patches[..., color].argmax(1)
    return torch.stack([index // SIDE, index % SIDE], 1)


@pytest.mark.parametrize("task", ["direction", "directions", "distance", "location"])
def test_targets_agree_with_the_pictures(task):
    samples = images(task, 500, seed=0)
    red, green = places(samples, 0), places(samples, 1)
    assert (samples.tokens.view(500, SIDE**2, 48).sum(2) > 0).sum(1).eq(2).all()  # two squares, one patch each
    if task == "direction":
        assert torch.equal(samples.targets == 0, green[:, 1] < red[:, 1])
        assert (green[:, 1] != red[:, 1]).all()
    if task == "directions":
        assert torch.equal(samples.targets, 2 * (red[:, 0] > green[:, 0]).long() + (red[:, 1] > green[:, 1]).long())
        assert (red != green).all()
        assert torch.bincount(samples.targets).min() > 90
    if task == "distance":
        assert torch.equal(samples.targets, (red - green).float())
    if task == "location":
        assert torch.equal(samples.targets == 1, red[:, 0] >= SIDE // 2)
        assert torch.equal(samples.targets == 1, green[:, 0] >= SIDE // 2)


def test_test_colors_are_not_training_colors():
    tokens = to_test("colour", 0).tokens.view(-1, 3)
    colors = tokens[tokens.sum(1) > 0].unique(dim=0).tolist()
    assert sorted(colors) == [[0, 0, 1], [1, 1, 0]]


def arrangement(samples):
    """Return the number of the arrangement of both squares, (B,)."""
    red, green = places(samples, 0), places(samples, 1)
    return ((red[:, 0] * SIDE + red[:, 1]) * SIDE + green[:, 0]) * SIDE + green[:, 1]


@pytest.mark.parametrize("task, possible", [("direction", 3584), ("distance", 4032), ("location", 1984)])
def test_test_arrangements_are_not_training_arrangements(task, possible):
    for seed in (0, 1):
        train, test = images(task, TRAIN, seed), to_test(task, seed)
        assert (len(train.tokens), len(test.tokens)) == (TRAIN, TEST)
        train, test = arrangement(train).unique(), arrangement(test).unique()
        assert not torch.isin(test, train).any()
        assert len(train) > 0.6 * possible
        assert len(test) > 0.1 * possible
    assert not torch.equal(arrangement(to_test(task, 0)).unique(), arrangement(to_test(task, 1)).unique())


def test_random_labels_belong_to_arrangements_and_agree_with_true_labels_by_chance():
    agree = []  # 53 % when both came from one seed
    for seed in range(20):
        true, random = images("location", 2000, seed), images("location", 2000, seed, control="labels")
        assert torch.equal(true.tokens, random.tokens)
        agree.append((random.targets == true.targets).float().mean())
        numbers = arrangement(true)
        of = dict(zip(numbers.tolist(), random.targets.tolist()))
        assert [of[number] for number in numbers.tolist()] == random.targets.tolist()
    assert abs(torch.stack(agree).mean() - 0.5) < 0.01
    random, true = (images("distance", 2000, 0, control=control).targets for control in ("labels", ""))
    assert random.std() > 3
    assert torch.corrcoef(torch.stack([random[:, 0], true[:, 0]]))[0, 1].abs() < 0.1


def test_shuffled_positions_have_no_information():
    samples, shuffled = images("location", 400, 0), images("location", 400, 0, control="places")
    assert torch.equal(shuffled.tokens.sum(1), samples.tokens.sum(1))
    upper = (places(shuffled, 0)[:, 0] < SIDE // 2).float()
    assert abs((upper == (samples.targets == 0).float()).float().mean() - 0.5) < 0.1


def test_probes_read_sines_and_no_random_vectors():
    r = grid_positions()[0].double() / SIDE
    waves = torch.cat([(r * f).sin() for f in (0.3, 1.0, 3.0)] + [(r * f).cos() for f in (0.3, 1.0, 3.0)], dim=1)
    noise = torch.randn(SIDE**2, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert direction_probe(waves, axis=0, seed=0) > 98
    assert distance_probe(waves, seed=0) > 0.95
    assert 30 < direction_probe(noise, axis=1, seed=0) < 70
    assert distance_probe(noise, seed=0) < 0.2


def test_logistic_regression_reaches_its_minimum():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=generator, dtype=torch.float64)
    y = (x @ torch.tensor([1.0, -2, 0, 0, 0.5]).double() + torch.randn(300, generator=generator).double() > 0).double()
    w = logistic(x, y)
    x = x / x.std()
    slope = ((x @ w).sigmoid() - y) @ x + w  # of the summed losses and |w|² / 2
    assert slope.abs().max() < 1e-4


@pytest.mark.slow
def test_location_is_learned_from_sines_and_not_without_positions():
    test = to_test("location", 0)
    assert accuracy(train_reader("location", "Sincos", 0, count=600, epochs=10), test) > 90
    assert accuracy(train_reader("location", "NoPE", 0, count=600, epochs=10), test) < 60
