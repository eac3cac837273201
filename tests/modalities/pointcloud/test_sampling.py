"""Farthest points and nearest neighbors against naive references, equal to the bit, whatever else is in the batch."""

import time

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.modalities.pointcloud import sampling
from ndformer.modalities.pointcloud.sampling import farthest, nearest


def squares(points, place):
    d = points - place
    return d[:, 0] * d[:, 0] + d[:, 1] * d[:, 1] + d[:, 2] * d[:, 2]


def naive_farthest(points, count):
    middle = (points.min(0) + points.max(0)) / np.float32(2)
    taken = [int(squares(points, middle).argmax())]
    while len(taken) < count:
        gaps = np.min([squares(points, points[i]) for i in taken], axis=0)
        taken.append(int(gaps.argmax()))
    return taken


def naive_nearest(points, centers, count):
    return [sorted(range(len(points)), key=lambda j: (squares(points, c)[j], j))[:count] for c in centers]


def padded(clouds):
    x = torch.full((len(clouds), max(map(len, clouds)), 3), 7.0)  # padding far away: it would be chosen
    valid = torch.zeros(x.shape[:2], dtype=torch.bool)
    for row, mask, cloud in zip(x, valid, clouds):
        row[: len(cloud)], mask[: len(cloud)] = torch.from_numpy(cloud), True
    return x, valid


def some_clouds(sizes, rng, steps=None):
    """Return random clouds, with `steps` on a coarse grid that has equal distances and equal points."""
    make = (lambda n: rng.integers(0, steps, (n, 3)) / 4) if steps else (lambda n: rng.normal(size=(n, 3)))
    return [make(n).astype(np.float32) for n in sizes]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.sampled_from([None, 3, 6]))
def test_farthest_points_match_the_naive_search(seed, sizes, steps):
    clouds = some_clouds(sizes, np.random.default_rng(seed), steps)
    found = farthest(*padded(clouds)[:1], 12, padded(clouds)[1])
    for cloud, row in zip(clouds, found.tolist()):
        distinct = min(len(np.unique(cloud, axis=0)), 12)
        assert row[:distinct] == naive_farthest(cloud, distinct)
        assert max(row) < len(cloud)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.sampled_from([None, 3, 6]))
def test_neighbors_match_brute_force(seed, sizes, steps):
    clouds = some_clouds(sizes, np.random.default_rng(seed), steps)
    x, valid = padded(clouds)
    index, distance = nearest(x, x[:, :5], 9, valid)
    for cloud, row, far in zip(clouds, index, distance):
        n = min(9, len(cloud))
        centers = min(5, len(cloud))
        assert row[:centers, :n].tolist() == naive_nearest(cloud, cloud[:5], 9)
        assert torch.isinf(far[:, n:]).all()
        for i in range(centers):
            np.testing.assert_array_equal(far[i, :n], squares(cloud, cloud[i])[row[i, :n]])


def test_centers_in_chunks_give_the_same_neighbors(monkeypatch):
    points = torch.randn(2, 50, 3)
    whole = nearest(points, points, 7)
    monkeypatch.setattr(sampling, "CHUNK", 2 * 50 * 3)
    assert all(torch.equal(a, b) for a, b in zip(whole, nearest(points, points, 7)))


def test_ten_thousand_points_become_8192_in_under_two_seconds():
    points = torch.nn.functional.normalize(torch.randn(1, 10_000, 3), dim=2)
    start = time.process_time()
    found = farthest(points, 8192)
    assert time.process_time() - start < 2
    assert len(found.unique()) == 8192


def test_sums_of_half_precision_points_are_exact_enough():
    points = torch.randn(1, 100, 3).half()
    assert torch.equal(farthest(points, 20), farthest(points.float(), 20))
