"""Relative: its buckets, tables and entries for class tokens."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ndformer.encodings.relative import IRPE, T5, clipped_buckets, log_buckets, piecewise_buckets
from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import Where
from tests.encodings.conftest import weights_of
from tests.framework.helpers import Largest

Make = Callable[..., Any]
PLACE: dict[str, Any] = dict(dim=24, heads=2, position_dims=2, depth=2)


def test_t5s_buckets_are_those_of_whole_numbers() -> None:
    """8 + floor(8 log(d / 8) / log(16)): d^8 against 8^8 16^b, where nothing is rounded."""
    actual = log_buckets(T5)
    assert actual[:9] == list(range(9))
    assert len(actual) == 129
    for d in range(8, 129):
        assert actual[d] == min(15, max(b for b in range(8, 17) if d**8 >= 8**8 * 16 ** (b - 8)))
    assert [actual[d] for d in (15, 16, 31, 32, 63, 64, 127)] == [9, 10, 11, 12, 13, 14, 15]


def test_a_power_of_two_begins_its_own_bucket_though_its_logarithm_falls_short() -> None:
    assert math.log(8 / 2) / math.log(64 / 2) * 5 < 2 <= log_buckets((2.0, 7.0, 64.0))[8] - 2  # 1.9999999999999998
    for spans in [(2.0, 7.0, 64.0), (1.0, 11.0, 1024.0), (4.0, 12.0, 1024.0), (8.0, 16.0, 2048.0)]:
        alpha, beta, gamma = spans
        per_doubling = (beta - alpha) / math.log2(gamma / alpha)
        for power in range(int(math.log2(gamma / alpha))):
            assert log_buckets(spans)[int(alpha) * 2**power] == math.floor(round(alpha + power * per_doubling, 6))


def test_irpes_buckets_are_seven_on_both_sides_together() -> None:
    assert piecewise_buckets(IRPE) == [0, 1, 2, 2, 3, *[3] * 12]
    wide = (3.8, 7.6, 30.4)
    expected = [round(3.8 + math.log(d / 3.8) / math.log(8) * 3.8) for d in range(4, 32)]
    assert piecewise_buckets(wide) == [0, 1, 2, 3, *[min(7, bucket) for bucket in expected]]


def test_clipped_buckets_end_at_the_reach() -> None:
    assert clipped_buckets(3) == [0, 1, 2, 3]
    assert clipped_buckets(0) == [0]


@pytest.mark.parametrize("buckets, reach", [("clipped", 16), ("piecewise", 4), ("log", 91)])
def test_it_tells_places_up_to_where_the_last_bucket_begins(buckets: str, reach: int) -> None:
    assert build_encoding(dict(type="Relative", buckets=buckets), **PLACE).initial_radius == reach


@pytest.mark.parametrize("buckets", ["clipped", "piecewise", "log"])
@pytest.mark.parametrize("method", ["split", "cross", "product", "euclidean"])
def test_float32_and_float64_look_the_same_entries_up(method: str, buckets: str, make: Make) -> None:
    model = make(dict(type="Relative", method=method, buckets=buckets, reach=9), 2, seed=1)
    steps = torch.cat([torch.arange(40), 2 ** torch.arange(6, 9)]).double()
    r = torch.stack([steps, steps.flip(0)], -1)[None]
    x = torch.randn(1, len(steps), model.dim).double()
    with torch.no_grad():
        fine = model.double().bias(x, Where(r * 1.0))
        again = model.double().bias(x, Where(r.float()))
    assert torch.equal(fine, again)


@pytest.mark.parametrize("cfg", [
    dict(method="product", buckets="piecewise", class_entries=True),
    dict(method="product", reach=(2, 1)),
    dict(method="euclidean", buckets="piecewise", shared=False),
    dict(method="euclidean", reach=3, class_entries=True),
    dict(method="cross", buckets="log"),
    dict(buckets="log", shared=False, class_entries=True),
    dict(reach=(2, 5)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("layout", ["unplaced", "packed"])
def test_options_give_the_reference(cfg: Any, layout: str, make: Make, reference: Any, plain_flex: None) -> None:
    model = make(dict(type="Relative", **cfg), 2, seed=3).double()
    given: dict[str, Any] = {"positions": torch.rand(2, 9, 2) * torch.tensor([9.0, 60.0])}
    given["placed"] = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0, 1, 1, 1]]).bool()
    if layout == "packed":
        given["segment"] = torch.tensor([[0, 1, 1, 1, 1, 2, 2, 2, -1]] * 2)
    x = torch.randn(2, 9, model.dim).double()
    wanted = reference(model, weights_of(model), x, given)
    where = Where(**given)
    with torch.no_grad():
        for backend in ("dense", "sdpa", "flex"):
            torch.testing.assert_close(model(x, where, backend), wanted.detach(), rtol=0, atol=1e-10)


def test_by_distance_alone_a_turn_changes_nothing(make: Make) -> None:
    model = make(dict(type="Relative", method="euclidean"), 3).double()
    assert model.encoding.rotation_invariant
    assert not make(dict(type="Relative"), 3).encoding.rotation_invariant
    x, r = torch.randn(1, 8, model.dim).double(), torch.randint(0, 9, (1, 8, 3)).double()
    turn = torch.linalg.qr(torch.randn(3, 3).double()).Q
    torch.testing.assert_close(model.logits(x, Where(r)), model.logits(x, Where(r @ turn)))


def test_no_tensor_has_a_vector_for_every_pair() -> None:
    """Of N tokens, N x entries and N x N numbers a head, never N x N x h."""
    N, width = 64, 32
    encoding = build_encoding(dict(type="Relative", reach=4), dim=width, heads=1, position_dims=2, depth=1)
    layer, where = encoding.layer(0, 1), Where(torch.rand(1, N, 2) * 9)
    q = torch.randn(1, 1, N, width, requires_grad=True)
    with Largest() as largest:
        _, _, bias = layer(q, q, q[0], encoding.prepare(where))
        assert bias is not None
        bias.rows(0, N).sum().backward()
    assert largest.size == N * N
