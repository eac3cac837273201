"""torch.compile takes the whole model as one graph and gives the numbers of the uncompiled one."""

import itertools
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from ndformer.framework import transformer
from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tests.encodings.references.gta import random_cameras
from tests.framework.helpers import ANYWHERE, CAMERAS

LAYOUTS = ["plain", "unplaced", "padded", "packed"]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def tokens(layout: str, n: int = 7, size: float = 6.0, cameras: bool = False) -> TokenSet:
    positions, slot = torch.rand(2, n, 2) * size, torch.arange(n).expand(2, n)
    kinds: dict[str, dict[str, Any]] = dict(
        plain={},
        unplaced={"placed": slot > 0},
        padded={"valid": slot < torch.tensor([[n], [n - 2]])},
        packed={"segment": torch.where(slot == n - 1, -1, slot // 3)},
    )
    masks = {name: mask for kind in layout.split() for name, mask in kinds[kind].items()}
    if cameras:
        masks["cameras"] = random_cameras(2, n).float()
    return TokenSet(torch.randn(2, n, 16), Where(positions, **masks))


def model(name: str, **options: Any) -> Transformer:
    encoding = dict(type=name) | CAMERAS.get(name, {})
    return Transformer(16, 1, 2, position_dims=2, encoding=encoding, **options)


def both_ways(forward: Any, network: nn.Module, given: TokenSet) -> list[Tensor]:
    network.zero_grad()
    x = given.features.clone().requires_grad_()
    y = forward(TokenSet(x, given.where)).features
    y.square().sum().backward()
    assert x.grad is not None
    return [y.detach(), x.grad, *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


SOME = [(name, ("packed", "unplaced padded")[i % 2]) for i, name in enumerate(ANYWHERE)]
if os.environ.get("LAYOUTS") == "all":
    SOME = list(itertools.product(ANYWHERE, LAYOUTS))
EVERYDAY = [("PaPE", "unplaced padded"), ("PRoPE", "packed")]
SLOW = [pytest.param(*some, marks=pytest.mark.slow) for some in SOME if some not in EVERYDAY]


@pytest.mark.parametrize("name, layout", [*EVERYDAY, *SLOW])
def test_one_graph_gives_the_same_forward_and_backward(name: str, layout: str, monkeypatch: Any) -> None:
    # whole packed rows, as in a graph: without it eager code attends over groups of samples, and rounds otherwise
    monkeypatch.setattr(transformer, "prepare", lambda encoding, where, draw: encoding.prepare(where))
    network, given = model(name), tokens(layout, cameras=name in CAMERAS)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    expected = both_ways(network, network, given)
    ours = both_ways(compiled, network, given)
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("options", [dict(backend="dense"), dict(drop_path=0.0, qk_norm=True)])
def test_options_do_not_break_the_graph(options: dict[str, Any]) -> None:
    network, given = model("PaPE", layer_scale=0.1, initial_norm=True, **options), tokens("padded")
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    for a, b in zip(both_ways(compiled, network, given), both_ways(network, network, given)):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_places_may_be_made_inside_the_graph(layout: str) -> None:
    """Where nothing can be read off the values: no cut, no extent, the same numbers."""
    network, given = model("PaPE"), tokens(layout)
    w = given.where

    def forward(x: Tensor, r: Tensor, valid: Tensor | None, placed: Tensor | None, segment: Tensor | None) -> Tensor:
        where = Where(r, valid=None if segment is not None else valid, placed=placed, segment=segment)
        assert where.cut is None
        assert where.extent is None
        return network(TokenSet(x, where)).features

    y = torch.compile(forward, fullgraph=True, backend="eager")(
        given.features, w.positions, w.valid, w.placed, w.segment
    )
    torch.testing.assert_close(y, network(given).features, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name, layout", [("AxialRoPE", "plain"), ("ALiBi", "unplaced"), ("PaPE", "padded")])
def test_samples_of_many_lengths_and_sizes_share_a_few_graphs(name: str, layout: str) -> None:
    network, counter = model(name), CompileCounter()
    compiled = torch.compile(network, fullgraph=True, backend=counter)
    for i in range(6):
        compiled(tokens(layout, n=9 + 5 * i, size=3.0 * 4**i))
    # the first, one for any length, and for PaPE one each with and without features
    assert counter.frame_count <= (4 if name == "PaPE" else 2)


def test_packing_of_one_kind_shares_a_few_graphs() -> None:
    """Rows of samples whose lengths lie in one range from power of two to power of two."""
    network, counter = model("ALiBi"), CompileCounter()
    compiled = torch.compile(network, fullgraph=True, backend=counter)
    for i in range(6):
        lengths = torch.randint(5, 9, (6,), generator=torch.Generator().manual_seed(i))
        segment = torch.repeat_interleave(torch.arange(6), lengths)[None]
        n = segment.shape[1]
        compiled(TokenSet(torch.randn(1, n, 16), Where(torch.rand(1, n, 2), segment=segment)))
    assert counter.frame_count <= 3


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor compiles with g++, which is not there")
def test_inductor_gives_the_same() -> None:
    """The real compiler, for one attention layer; half a minute."""
    given = tokens("padded")
    encoding = build_encoding(dict(type="PaPE"), dim=16, heads=2, position_dims=2, depth=1)
    attention = Attention(16, 2, encoding.layer(0, 1))
    state = encoding.prepare(given.where)
    results = []
    for forward in (attention, torch.compile(attention, fullgraph=True)):
        attention.zero_grad()
        y = forward(given.features, given.where, state)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad.clone() for p in attention.parameters() if p.grad is not None)])
    assert len(results[0]) == len(results[1]) == 8
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
