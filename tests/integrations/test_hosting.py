"""Models of others with our encodings: where the class token stands, and threads. No other package is needed."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ndformer.integrations.hosting import Hosted, Place, Positions
from ndformer.modalities.image.adapter import ImagePatches


@pytest.mark.parametrize(
    "encoding, class_at, expected",
    [
        ("PaPE(m=5)", "auto", "center"),
        ("ALiBi", "auto", "nowhere"),
        ("Sincos, PaPECompact", "auto", "center"),
        ("PaPE(m=5)", "nowhere", "nowhere"),
        ("AxialRoPE", "origin", "origin"),
    ],
)
def test_the_class_token_stands_where_our_own_models_have_it(encoding, class_at, expected):
    """Issue 44.2: it stood nowhere, whatever the encoding, and PaPE is weaker so."""
    positions = Positions(encoding, dim=24, heads=2, depth=1, prefix=2, class_at=class_at)
    positions.enter(3, 4, torch.device("cpu"))
    ours = ImagePatches(24, patch=2, registers=1, class_at=expected)(torch.zeros(1, 3, 6, 8)).where
    found = positions.place.where
    torch.testing.assert_close(found.positions, ours.positions)
    assert found.grid == ours.grid
    assert (found.placed is None) == (ours.placed is None)
    if ours.placed is not None and found.placed is not None:
        assert torch.equal(found.placed, ours.placed)


def test_another_word_for_the_place_is_refused():
    with pytest.raises(ValueError, match="class_at must be 'nowhere', 'origin', 'center' or 'auto', got 'middle'"):
        Positions("PaPE", dim=24, heads=2, depth=1, prefix=1, class_at="middle")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("encoding", [dict(type="LearnableMLP"), [dict(type="Sincos"), dict(type="LearnableMLP")]])
def test_an_encoding_of_the_input_of_queries_and_keys_is_refused(encoding):
    positions = Positions(encoding, dim=32, heads=2, depth=1, prefix=0)
    with pytest.raises(ValueError, match="from one input, got an encoding that adds to that of q and k"):
        Attention(positions.encoding.layer(0, 1), positions.place)


class Attention(Hosted):
    def __init__(self, encoding, place: Place) -> None:
        super().__init__(encoding, place)
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.input(x)).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        return x + self.attend(q, k, v, x)


class Host(nn.Module):
    """A model of others with two layers and no class token; it waits between its positions and its layers."""

    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.positions, self.checkpointed = Positions("PaPE(m=2)", 32, 2, 2, prefix=0), checkpointed
        layers = (self.positions.encoding.layer(i, 2) for i in range(2))
        self.blocks = nn.ModuleList(Attention(layer, self.positions.place) for layer in layers)

    def forward(self, x: Tensor, rows: int, columns: int, barrier: threading.Barrier | None = None) -> Tensor:
        self.positions.enter(rows, columns, x.device)
        if barrier is not None:
            barrier.wait(30)
        x = self.positions.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


def test_threads_have_their_own_positions():
    """Issue 44.4: four threads that called one model mixed their positions, and their answers were wrong."""
    host, x, grids = Host(), torch.randn(1, 12, 32), [(3, 4), (4, 3), (2, 6), (6, 2)]
    expected = [host(x, *grid) for grid in grids]
    barrier = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda grid: host(x, *grid, barrier), grids)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)


def test_checkpointed_layers_are_recomputed_in_another_thread():
    """As on a GPU, where torch runs backward() in a thread of its own; if several call, it could take another's."""
    x, host = torch.randn(1, 12, 32), Host(checkpointed=True)
    expected = Host()
    expected(x, 3, 4).square().sum().backward()
    loss = host(x, 3, 4).square().sum()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(loss.backward).result()
        for one, other in zip(host.parameters(), expected.parameters()):
            torch.testing.assert_close(one.grad, other.grad)
    loss = host(x, 3, 4).square().sum()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(host, x, 4, 3).result()
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match=r"give each thread a copy\.deepcopy"):
        pool.submit(loss.backward).result()
    host(x, 3, 4).square().sum().backward()  # in the thread of the call


def test_copies_of_a_model_have_places_without_a_batch():
    host, x = Host(), torch.randn(1, 12, 32)
    host(x, 3, 4)
    for one in (copy.deepcopy(host), pickle.loads(pickle.dumps(host))):
        assert all(block.place is one.positions.place for block in one.blocks)
        with pytest.raises(RuntimeError, match="Call the model before its layers"):
            one.blocks[0](x)
