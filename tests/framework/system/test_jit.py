"""numba that fails is left out, with one warning."""

import sys
import types
import warnings
from collections.abc import Iterator

import pytest
import torch

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.system.jit import numba_works
from ndformer.framework.tokens import Where
from ndformer.modalities.events.spikes.spiking import find_spikes
from ndformer.modalities.events.spikes.tokenizers import fastest


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A numba that fails for lack of a cache folder."""

    def njit(**options: object) -> object:
        def refuse(function: object) -> object:
            raise RuntimeError("cannot cache function '_nothing': no locator available for file 'jit.py'")

        return refuse

    numba = types.ModuleType("numba")
    numba.__dict__["njit"] = njit
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    numba_works.cache_clear()
    yield
    numba_works.cache_clear()


@pytest.mark.usefixtures("broken")
def test_a_numba_that_does_not_work_is_left_alone_and_said_once() -> None:
    torch.manual_seed(0)
    encoding = build_encoding(dict(type="PaPE"), dim=32, heads=2, position_dims=2, depth=1)
    attention, where = Attention(32, 2, encoding.layer(0, 1)), Where(torch.rand(1, 150, 2))
    x, state = torch.ones(1, 150, 32), encoding.prepare(where)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert attention(x, where, state).isfinite().all()
        assert attention(x, where, state).isfinite().all()
        assert fastest() is find_spikes
    (one,) = said
    assert "numba is installed but fails (cannot cache function" in str(one.message)


def test_dense_attention_over_nothing_is_nothing() -> None:
    for rows, tokens in ((0, 5), (2, 0)):
        attention = Attention(32, 2, None, backend="dense")
        where = Where(torch.zeros(rows, tokens, 2))
        assert attention(torch.zeros(rows, tokens, 32), where, None).shape == (rows, tokens, 32)
