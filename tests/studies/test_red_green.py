"""Red-green images of the thesis, and the probes of its Table 2."""

import pytest
import torch

from ndformer.studies.small import accuracy
from ndformer.studies.thesis.probes import direction_probe, distance_probe, logistic
from ndformer.studies.thesis.red_green import SIDE, TEST, TRAIN, grid_positions, images, to_test, train_reader


def places(samples, colour):
    """(B, 2): row and column of the square in which this channel alone shines."""
    patches = samples.tokens.view(len(samples.tokens), SIDE**2, 16, 3).mean(2)
    at = patches[..., colour].argmax(1)
    return torch.stack([at // SIDE, at % SIDE], 1)


@pytest.mark.parametrize("task", ["direction", "directions", "distance", "location"])
def test_targets_are_those_of_the_pictures(task):
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


def test_other_colours_are_none_of_those_learnt():
    tokens = to_test("colour", 0).tokens.view(-1, 3)
    seen = tokens[tokens.sum(1) > 0].unique(dim=0).tolist()
    assert sorted(seen) == [[0, 0, 1], [1, 1, 0]]


def arrangement(samples):
    """(B,): the number of where both squares are."""
    red, green = places(samples, 0), places(samples, 1)
    return ((red[:, 0] * SIDE + red[:, 1]) * SIDE + green[:, 0]) * SIDE + green[:, 1]


@pytest.mark.parametrize("task, possible", [("direction", 3584), ("distance", 4032), ("location", 1984)])
def test_arrangements_to_test_were_not_learnt_from(task, possible):
    for seed in (0, 1):
        learnt, asked = images(task, TRAIN, seed), to_test(task, seed)
        assert len(learnt.tokens) == TRAIN
        assert len(asked.tokens) == TEST
        learnt, asked = arrangement(learnt).unique(), arrangement(asked).unique()
        assert not torch.isin(asked, learnt).any()
        assert len(learnt) > 0.6 * possible
        assert len(asked) > 0.1 * possible
    assert not torch.equal(arrangement(to_test(task, 0)).unique(), arrangement(to_test(task, 1)).unique())


def test_labels_at_random_are_of_the_arrangement_and_agree_with_the_true_ones_by_chance():
    agree = []  # where both came from one seed, it was 53 %
    for seed in range(20):
        true, dealt = images("location", 2000, seed), images("location", 2000, seed, control="labels")
        assert torch.equal(true.tokens, dealt.tokens)
        agree.append((dealt.targets == true.targets).float().mean())
        numbers = arrangement(true)
        of = dict(zip(numbers.tolist(), dealt.targets.tolist()))
        assert [of[number] for number in numbers.tolist()] == dealt.targets.tolist()
    assert abs(torch.stack(agree).mean() - 0.5) < 0.01
    dealt, true = (images("distance", 2000, 0, control=control).targets for control in ("labels", ""))
    assert dealt.std() > 3
    assert torch.corrcoef(torch.stack([dealt[:, 0], true[:, 0]]))[0, 1].abs() < 0.1


def test_places_dealt_out_anew_say_nothing():
    samples, shuffled = images("location", 400, 0), images("location", 400, 0, control="places")
    assert torch.equal(shuffled.tokens.sum(1), samples.tokens.sum(1))
    upper = (places(shuffled, 0)[:, 0] < SIDE // 2).float()
    assert abs((upper == (samples.targets == 0).float()).float().mean() - 0.5) < 0.1


def test_probes_read_sines_and_nothing_from_random_vectors():
    r = grid_positions()[0].double() / SIDE
    waves = torch.cat([(r * f).sin() for f in (0.3, 1.0, 3.0)] + [(r * f).cos() for f in (0.3, 1.0, 3.0)], dim=1)
    noise = torch.randn(SIDE**2, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert direction_probe(waves, axis=0, seed=0) > 98
    assert distance_probe(waves, seed=0) > 0.95
    assert 30 < direction_probe(noise, axis=1, seed=0) < 70
    assert distance_probe(noise, seed=0) < 0.2


def test_logistic_regression_is_at_its_minimum():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=generator, dtype=torch.float64)
    y = (x @ torch.tensor([1.0, -2, 0, 0, 0.5]).double() + torch.randn(300, generator=generator).double() > 0).double()
    w = logistic(x, y)
    x = x / x.std()
    slope = ((x @ w).sigmoid() - y) @ x + w  # of the summed losses and |w|² / 2
    assert slope.abs().max() < 1e-4


@pytest.mark.slow
def test_location_is_learnt_from_sines_and_guessed_without_places():
    test = to_test("location", 0)
    assert accuracy(train_reader("location", "Sincos", 0, count=600, epochs=10), test) > 90
    assert accuracy(train_reader("location", "NoPE", 0, count=600, epochs=10), test) < 60
