"""Memory of dense attention grows with the number of tokens, not with its square, forward and backward."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import ndformer.framework.kernels.dense as dense_module
from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import Where
from tools.benchmarks.attention import LiveBytes


class Peak(LiveBytes):
    """The most bytes of new storages alive at any one time: those that operators are given were there before."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self.counted:
                storage = tensor.untyped_storage()
                self.counted.add(storage._cdata)
                weakref.finalize(storage, self.counted.discard, storage._cdata)
        return super().__torch_dispatch__(func, types, args, kwargs)


def peak(tokens: int, backend: str, name: str = "PaPE", train: bool = True) -> float:
    """MiB of one attention layer of 2 heads of 16 over points, or a grid of 16 x 16 x something where it takes one."""
    torch.manual_seed(0)
    encoding = build_encoding(dict(type=name), dim=32, heads=2, position_dims=3, depth=1)
    attention = Attention(32, 2, encoding.layer(0, 1), backend=backend)
    x, where = (
        torch.randn(1, tokens, 32, requires_grad=train),
        Where(torch.rand(1, tokens, 3) * 100, grid=(16, 16, tokens // 256)),
    )
    with Peak() as memory, torch.set_grad_enabled(train):
        y = attention(x, where, encoding.prepare(where))
        if train:
            y.sum().backward()
    assert memory.now < memory.peak
    return memory.peak / 2**20


def test_the_measure_counts_what_is_alive_at_once() -> None:
    a = torch.zeros(2**18)  # 1 MiB, from before
    with Peak() as memory:
        b = a + 1
        c = (b.view(2, -1)[0] * 2).sum()  # half a MiB, and a number
        del b
        assert memory.now == c.nbytes
        _ = a.view(-1), a[:3]
        d = a * 2
    assert memory.peak == 2**20 + 2**19 + 4
    assert d.nbytes + c.nbytes == memory.now


def test_a_bias_made_whole_grows_with_the_square() -> None:
    """Which is why dense attention is there, and shows that the test below could fail."""
    assert peak(1024, "sdpa", name="ALiBi") > 3 * peak(512, "sdpa", name="ALiBi")


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True])
def test_dense_attention_grows_with_the_number_of_tokens(train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # smaller chunks than usual, so that what grows is not hidden beneath what a chunk takes
    monkeypatch.setattr(dense_module, "CHUNK", 2**18)
    before = first = peak(1024, "dense", train=train)
    for tokens in (2048, 4096):
        now = peak(tokens, "dense", train=train)
        assert now <= 2 * 1.3 * before  # ends here, before a square fills the machine
        before = now
    assert before <= 4 * 1.3 * first
    assert before >= 4096 * 32 * 4 * 4 / 2**20  # x, q, k and v at the very least


@pytest.mark.slow
def test_chunks_take_no_more_than_their_share() -> None:
    """Whatever the length, as many logits are held as CHUNK says, some twenty times over for a bias in three axes."""
    assert peak(4096, "dense") <= 25 * dense_module.CHUNK * 4 / 2**20 + 40


@pytest.mark.parametrize("name", ["Relative", "CoPE", "SaPE2"])
def test_what_queries_and_keys_decide_takes_no_more_than_chunks_either(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_module, "CHUNK", 2**18)
    few, many = peak(1024, "dense", name), peak(2048, "dense", name)
    assert many <= 2 * 1.3 * few
