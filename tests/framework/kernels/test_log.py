"""Nothing that grows with the square of the tokens is made on a GPU without a word, whatever the encoding and layout.

On meta tensors, which have shapes and no values, and are taken for those of a GPU. What is made is seen below.
"""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.kernels import backend, choose, flex
from ndformer.framework.kernels.dense import CHUNK
from ndformer.framework.kernels.sdpa import MASK
from ndformer.framework.tokens import Where
from tests.framework.helpers import Largest

N = 1500
FREE = ["NoPE", "PaPE", "PaPERI", "PaPECompact", "ALiBi", "LookHere", "RelativeBias", "AxialRoPE", "CoPE", "FIRE"]
LAYOUTS = ["plain", "padded", "packed"]


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        return q + v  # what it makes is not seen, and is no table of pairs: compiled, it cannot

    own = F.scaled_dot_product_attention

    def flash(q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        return own(q, k, v, **given) if q.dtype == torch.float64 else q + v  # a GPU has a kernel for the others

    monkeypatch.setattr(F, "scaled_dot_product_attention", flash)
    monkeypatch.setattr(backend, "GPU", "meta")
    monkeypatch.setattr(flex, "compiled", lambda: kernel)
    monkeypatch.setattr(choose, "_printed", set())


def made(name: str, layout: str, dtype: torch.dtype) -> int:
    """The largest tensor that one attention layer on a GPU makes."""
    encoding = build_encoding(dict(type=name), dim=32, heads=2, position_dims=2, depth=1).to("meta")
    attention = Attention(32, 2, encoding.layer(0, 1)).to("meta", dtype)
    with torch.device("meta"):
        n = torch.arange(N).expand(2, N)
        valid, segment = (n < 900 if layout == "padded" else None), (n // 100 if layout == "packed" else None)
        where = Where(torch.empty(2, N, 2), valid=valid, segment=segment)
        x, state = torch.empty(2, N, 32, dtype=dtype), encoding.prepare(where)
        with Largest() as largest:
            attention(x, where, state)
    return largest.size


@pytest.mark.parametrize("name, layout", list(itertools.product(FREE, LAYOUTS)))
def test_a_table_of_pairs_on_a_gpu_is_told(
    name: str, layout: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NDFORMER_LOG", "attention")
    for dtype in (torch.bfloat16, torch.float64):
        size = made(name, layout, dtype)
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "on meta" in said
        if size >= N * N:
            assert "pairs at a time" in said, (size, said)
            assert size <= 4 * max(CHUNK, MASK)
        elif dtype == torch.bfloat16:
            assert "no table of pairs" in said


def test_a_kind_of_call_is_told_once_and_only_who_asks_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made("PaPE", "plain", torch.bfloat16)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("NDFORMER_LOG", "other,attention")
    for _ in range(2):
        made("PaPE", "plain", torch.bfloat16)
    made("CoPE", "plain", torch.bfloat16)
    lines = capsys.readouterr().err.splitlines()
    call = "2 x 2 heads of 16, 1500 tokens, bfloat16 on meta"
    assert lines[0] == f"attention: sdpa for {call}, QuadraticBias: holds 9,000,000 of 9,000,000 pairs at a time"
    assert lines[1].startswith(f"attention: dense for {call}, CountBias: holds ")
    assert len(lines) == 2
