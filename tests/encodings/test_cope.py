"""CoPE: what is counted, in which order, and what of it is published; its numbers are in test_reference.py."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.tokens import Where
from tests.encodings.conftest import weights_of

Make = Callable[..., Any]


def counts(model: Any, where: Where, gate: float = 0.5) -> Tensor:
    """(N, N) what queries of one channel count to keys, where all gates are alike and e[p] = p."""
    encoding, layer = model.encoding, model.attention.encoding
    with torch.no_grad():
        layer.table.copy_(torch.arange(layer.table.shape[1]))
    N = where.positions.shape[1]
    q = torch.ones(1, 1, N, 1)
    _, _, bias = layer(q, q * math.log(gate / (1 - gate)), q[0], encoding.prepare(where))
    return bias.rows(0, N)[0, 0]


def test_counting_ends_at_the_last_entry(make: Make) -> None:
    actual = counts(
        make(dict(type="CoPE", npos_max=4, two_sided=True), 1, heads=1, width=1),
        Where(torch.arange(9.0).view(1, 9, 1)),
        gate=1 - 1e-6,
    )
    distance = (torch.arange(9) - torch.arange(9)[:, None]).abs() + 1
    torch.testing.assert_close(actual, distance.clamp(max=3).float(), rtol=0, atol=1e-4)


def test_the_order_is_that_of_the_grid_or_of_the_axes_given(make: Make) -> None:
    grid = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))[None]
    one = dict(dims=2, heads=1, width=1)
    raster = counts(make(dict(type="CoPE"), **one), Where(grid)) * 2
    assert raster[5].tolist() == [6, 5, 4, 3, 2, 1]
    assert torch.equal(counts(make(dict(type="CoPE", order=[0, 1]), **one), Where(grid)) * 2, raster)
    columns = counts(make(dict(type="CoPE", order=[1, 0]), **one), Where(grid)) * 2
    assert columns[5].tolist() == [6, 4, 2, 5, 3, 1]
    x_alone = counts(make(dict(type="CoPE", order=[1]), **one), Where(grid)) * 2
    assert x_alone[5].tolist() == [6, 4, 2, 6, 4, 2]  # tokens of one column stand side by side, and count together
    assert x_alone[1].tolist() == [4, 2, -math.inf, 4, 2, -math.inf]


@pytest.mark.parametrize("preset", ["paper", "code", "appendix"])
def test_presets_are_what_the_paper_its_code_and_its_appendix_have(preset: str, make: Make) -> None:
    """Written as the appendix is: logits of a causal sequence, gates summed from behind."""
    model = make(dict(type="CoPE", preset=preset, npos_max=4), 1, heads=2, width=8).double()
    x = torch.randn(1, 7, 16).double()
    q, k, _ = model.attention.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
    causal = torch.ones(7, 7).tril().bool()
    content, root = q @ k.mT, math.sqrt(8)
    gates = (content if preset == "paper" else content / root).sigmoid() * causal
    p = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=3)
    whole = F.one_hot(p.floor().long(), 5).double() * (1 - p.frac())[..., None]
    next_ = F.one_hot(p.floor().long() + 1, 5).double() * p.frac()[..., None]
    term = torch.einsum("bhijp,bhip->bhij", (whole + next_)[..., :4], q @ model.attention.encoding.table)
    expected = content / root + term if preset == "appendix" else (content + term) / root
    actual = model.logits(x, Where(torch.arange(7.0).view(1, 7, 1).double()))
    torch.testing.assert_close(actual, expected.masked_fill(~causal, -math.inf))


@pytest.mark.parametrize("options", [dict(preset="appendix"), dict(order=[1], two_sided=True, npos_max=3)], ids=str)
@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_samples_of_a_row_do_not_count_each_other(options: Any, backend: str, make: Make, reference: Any) -> None:
    model = make(dict(type="CoPE", **options), 2, seed=2).double()
    given: dict[str, Any] = {"positions": torch.randint(0, 4, (2, 10, 2)).double()}  # among each other, and many ties
    given["segment"] = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1, -1], [3, 3, 3, 3, 3, 3, 8, 8, 8, 8]])
    given["placed"] = torch.tensor([[0, 1, 1, 1, 0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]]).bool()
    x = torch.randn(2, 10, model.dim).double()
    wanted = reference(model, weights_of(model), x, given).detach()
    where = Where(**given)
    with torch.no_grad():
        torch.testing.assert_close(model(x, where, backend), wanted, rtol=0, atol=1e-10)
        object.__setattr__(where, "cut", None)  # as inside a graph: rows are computed whole
        torch.testing.assert_close(model(x, where, backend), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("two_sided", [False, True])
def test_counts_near_a_query_keep_their_digits_in_long_rows(two_sided: bool, make: Make) -> None:
    model = make(dict(type="CoPE", two_sided=two_sided), 1, heads=1, width=8)
    where, q, k = Where(torch.arange(4000.0).view(1, -1, 1)), *torch.randn(2, 1, 1, 4000, 8)
    actual = []
    for dtype in (torch.float32, torch.float64):
        layer, state = model.to(dtype).attention.encoding, model.encoding.prepare(where)
        _, _, bias = layer(q.to(dtype), k.to(dtype), q[0].to(dtype), state)
        actual.append(bias.rows(2998, 3002).detach().double())
    seen = actual[1].isfinite()
    assert (actual[0] - actual[1])[seen].abs().max() <= 1e-5


def test_a_graph_orders_tokens_in_its_own_way_and_alike(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = make(dict(type="CoPE", order=[1, 0]), 2).encoding
    where = Where(torch.randint(0, 3, (2, 12, 2)).float(), valid=torch.arange(12)[None] < 10)
    wanted = encoding.prepare(where)
    monkeypatch.setattr("torch.compiler.is_exporting", lambda: True)  # ONNX knows fewer operators
    actual = encoding.prepare(where)
    assert torch.equal(actual.start, wanted.start)
    assert torch.equal(actual.end, wanted.end)
