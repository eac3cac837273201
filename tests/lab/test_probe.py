"""Linear probes of places: against regressions done one by one, and on features whose places are known."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ndformer.framework.errors import DataError, UnknownNameError
from ndformer.framework.tokens import Where
from ndformer.lab.probe import Probe, cross_val_predict, folds, r_squared, record_outputs, samples

GRID = torch.cartesian_prod(torch.arange(4.0), torch.arange(5.0))  # (20, 2)


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def slow_ridge(x, y, ask, penalty, middle, spread):
    """Least squares over rows that say 'w is 0' beside the data's: those weigh sqrt(penalty n)."""
    n, C = x.shape
    z = torch.cat([(x - middle) / spread, torch.ones(n, 1).double()], dim=1)
    zero = torch.cat([(penalty * n) ** 0.5 * torch.eye(C).double(), torch.zeros(C, 1).double()], dim=1)
    w = torch.linalg.lstsq(torch.cat([z, zero]), torch.cat([y, torch.zeros(C, y.shape[1]).double()])).solution
    return torch.cat([(ask - middle) / spread, torch.ones(len(ask), 1).double()], dim=1) @ w


def test_held_out_rows_are_answered_by_ridge_regressions_on_all_others():
    x = torch.randn(60, 7, generator=random()).double() * torch.logspace(-3, 3, 7) + 5
    y = torch.randn(60, 3, generator=random(1)).double()
    fold = torch.arange(60) % 4
    said = cross_val_predict(x, y, fold, penalty=0.3)
    for number in range(4):
        own = fold == number
        slow = slow_ridge(x[~own], y[~own], x[own], 0.3, x.mean(0), x.std(0))
        torch.testing.assert_close(said[own], slow, rtol=1e-9, atol=1e-9)


def test_r_squared_is_one_for_all_zero_for_the_mean_and_nothing_where_all_are_alike():
    truth = torch.stack([torch.arange(9.0), torch.full((9,), 0.1)], dim=1).double()
    assert r_squared(truth, truth)[0] == 1
    assert r_squared(truth.mean(0).expand(9, 2), truth)[0] == 0
    assert r_squared(truth, truth)[1].isnan()


def test_each_thing_is_held_once():
    kept, held = zip(*folds(23, 5, random()))
    assert torch.cat(held).sort().values.tolist() == list(range(23))
    assert all(sorted([*k.tolist(), *h.tolist()]) == list(range(23)) for k, h in zip(kept, held))


def linear(where, noise=0.0, channels=12, seed=0):
    """Features that hold the place, after a rotation."""
    r = where.positions
    mix = torch.randn(r.shape[2], channels, generator=random(seed))
    x = r @ mix
    return x + noise * torch.randn(x.shape, generator=random(seed + 1))


def test_places_that_are_in_the_features_are_read_and_others_are_not():
    where = Where(3 * GRID.expand(30, -1, -1), grid=(4, 5))
    noise = torch.randn(30, 20, 12, generator=random(3))
    probe = Probe()
    probe.add(dict(place=linear(where), noise=noise), where)
    found, nothing = probe.read("place"), probe.read("noise")
    assert found.spacing == (3.0, 3.0)
    for kind in ("place", "difference", "both"):
        assert (getattr(found, kind).r2 > 0.9999).all()
        assert (getattr(found, kind).error < 0.01).all()
        assert (getattr(found, kind).shuffled <= 0).all()
        assert (getattr(nothing, kind).r2 <= 0).all()
    mean = (torch.arange(4.0) - 1.5).abs().mean()  # what who says the middle errs by, in steps
    assert nothing.place.error[0].item() == pytest.approx(mean.item(), rel=0.1)


def test_the_relative_place_is_read_where_the_absolute_one_is_not():
    """Samples moved by chance, with features of what is left: a grid about its own middle."""
    moved = GRID + 100 * torch.randn(40, 1, 2, generator=random(5))
    where = Where(moved)
    probe = Probe()
    probe.add(dict(x=linear(Where(GRID.expand(40, -1, -1)))), where)
    found = probe.read("x")
    assert (found.place.r2 < 0.1).all()
    assert (found.difference.r2 > 0.9999).all()


def test_no_token_of_a_sample_that_is_asked_for_was_learned_from():
    """Features that name the sample, at places that only the sample tells: its other tokens would give them away."""
    name = torch.randn(30, 1, 40, generator=random(6)).expand(-1, 20, -1)
    where = Where(torch.randn(30, 1, 2, generator=random(7)) * 50 + GRID)
    probe = Probe()
    probe.add(dict(x=name), where)
    assert (probe.read("x").place.r2 < 0.1).all()
    x, r = name.flatten(0, 1).double(), where.positions.flatten(0, 1).double()
    assert (r_squared(cross_val_predict(x, r, torch.arange(len(x)) % 10), r) > 0.95).all()  # as it would be


def test_padding_packing_and_tokens_without_a_place_change_nothing():
    sizes, width = [5, 9, 3, 7] * 4, 6
    rows = [
        (torch.randn(n, width, generator=random(n)), torch.rand(n, 2, generator=random(9 + i)) * 9)
        for i, n in enumerate(sizes)
    ]
    junk = float("nan")
    alone, padded, packed = Probe(), Probe(), Probe()
    for x, r in rows:
        alone.add(dict(x=x[None]), Where(r[None]))
    valid = torch.arange(9) < torch.tensor(sizes)[:, None]
    x = torch.stack([F.pad(x, (0, 0, 0, 9 - len(x)), value=junk) for x, _ in rows])
    r = torch.stack([F.pad(r, (0, 0, 0, 9 - len(r))) for _, r in rows])
    x, r = F.pad(x, (0, 0, 1, 0), value=junk), F.pad(r, (0, 0, 1, 0))  # a class token, which is nowhere
    padded.add(dict(x=x), Where(r, valid=F.pad(valid, (1, 0), value=True), placed=torch.arange(10)[None] > 0))
    segment = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    segment = torch.cat([segment, torch.tensor([-1])])[None]
    x = torch.cat([*(x for x, _ in rows), torch.full((1, width), junk)])[None]
    packed.add(dict(x=x), Where(torch.cat([*(r for _, r in rows), torch.zeros(1, 2)])[None], segment=segment))
    for other in (padded, packed):
        for one, two in zip(alone.layers["x"].x, other.layers["x"].x, strict=True):
            assert torch.equal(one, two)
        for kind in ("place", "difference", "both"):
            assert torch.equal(getattr(alone.read("x"), kind).r2, getattr(other.read("x"), kind).r2)


def test_few_tokens_of_each_sample_are_drawn_by_the_seed():
    where = Where(GRID.expand(6, -1, -1), grid=(4, 5))
    kept = []
    for seed in (0, 0, 1):
        probe = Probe(tokens=4, seed=seed)
        probe.add(dict(a=linear(where), b=linear(where, seed=2)), where)
        assert [tuple(x.shape) for x in probe.layers["a"].x] == [(4, 12)] * 6
        assert all(torch.equal(a, b) for a, b in zip(probe.layers["a"].r, probe.layers["b"].r))  # the same ones
        kept.append(torch.cat(probe.layers["a"].r))
    assert torch.equal(kept[0], kept[1])
    assert not torch.equal(kept[0], kept[2])


def test_any_module_of_any_model_is_read():
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x, None

    class Foreign(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.last = nn.Conv2d(3, 8, 4, 4), Twice()
            self.table = nn.Parameter(GRID @ torch.randn(2, 8, generator=random()))

        def forward(self, images):
            return self.last(self.patches(images).flatten(2).mT + self.table)[0].mean(1)

    torch.manual_seed(0)
    model = Foreign()
    where, probe = Where(GRID[None], grid=(4, 5)), Probe()
    for seed in range(4):
        with record_outputs(model, ["last"]) as outputs:
            model(torch.randn(10, 3, 16, 20, generator=random(seed)))
        probe.add(outputs, where)
    assert (probe.read("last").place.r2 > 0.9).all()
    assert len(model.last._forward_hooks) == 0
    with (
        pytest.raises(UnknownNameError, match="no module 'lost', did you mean 'last'"),
        record_outputs(model, ["lost"]),
    ):
        pass


def test_outputs_of_other_threads_are_not_taken():
    """Issue 44.27: record_outputs() has the hooks that record_attention() has."""
    model = nn.Sequential(nn.Identity())
    with ThreadPoolExecutor(1) as pool, record_outputs(model, ["0"]) as outputs:
        model(torch.zeros(1))
        pool.submit(model, torch.ones(1)).result()
    assert outputs["0"] == 0


def test_what_cannot_be_read_is_a_sentence():
    probe = Probe()
    probe.add(dict(x=torch.randn(1, 20, 4)), Where(GRID[None]))
    with pytest.raises(DataError, match="at least 2 samples for cross-validation, got 1"):
        probe.read("x")
    probe.add(dict(x=torch.full((1, 20, 4), torch.nan)), Where(GRID[None]))
    with pytest.raises(DataError, match="must be finite"):
        probe.read("x")
    with pytest.raises(ValueError, match="rows, tokens, channels"):
        list(samples(torch.randn(2, 19, 4), Where(GRID[None])))


def test_samples_of_one_token_have_places_and_no_pairs():
    probe = Probe()
    r = torch.rand(12, 1, 2, generator=random())
    probe.add(dict(x=r.repeat(1, 1, 3)), Where(r))
    found = probe.read("x")
    assert (found.place.r2 > 0.99).all()
    assert found.both.r2.isnan().all()
