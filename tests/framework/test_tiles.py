"""Blocks of queries and keys: all pairs that see each other are in one, and few others; compiled once for all sizes."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.exc import InductorError
from torch.nn.attention.flex_attention import flex_attention

from ndformer.framework.bias.parabolas import IsotropicBias
from ndformer.framework.kernels import attend, backend, flex
from ndformer.framework.kernels.masks import attention_mask
from ndformer.framework.kernels.tiles import BLOCK, block_mask, blocks
from ndformer.framework.tokens import Where


def packed(lengths: list[int], rows: int = 1, padding: int = 0) -> Where:
    number = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    segment = torch.cat([number, torch.full((padding,), -1)])[None].expand(rows, -1)
    return Where(torch.rand(rows, segment.shape[1], 2), segment=segment)


@pytest.mark.parametrize("seed", range(6))
def test_each_pair_that_is_seen_is_in_a_block_and_whole_blocks_hold_no_other(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    where = packed(torch.randint(1, 300, (6,), generator=generator).tolist(), rows=2, padding=150)
    holes = torch.rand(where.positions.shape[:2], generator=generator) > (0.3 if seed % 2 else 0)
    where = Where(where.positions, segment=where.segment, valid=holes)
    N, mask = where.positions.shape[1], attention_mask(where, 0, where.positions.shape[1])
    assert mask is not None
    assert where.valid is not None
    pairs = torch.nn.functional.pad(mask[:, 0], (0, -N % BLOCK, 0, -N % BLOCK))
    queries = torch.nn.functional.pad(where.valid, (0, -N % BLOCK))
    cut = pairs.unflatten(2, (-1, BLOCK)).unflatten(1, (-1, BLOCK)).transpose(2, 3)  # (B, n, n, BLOCK, BLOCK)
    some, whole = blocks(where.valid, where.runs())
    assert not (some & whole).any()
    assert torch.equal((some | whole) | cut.any(-1).any(-1), some | whole)
    unseen = ~cut & queries.unflatten(1, (-1, BLOCK))[:, :, None, :, None]
    assert not (whole & unseen.any(-1).any(-1)).any()


def test_work_grows_with_the_squares_of_segments_and_not_of_their_sum() -> None:
    lengths = [700] * 40
    made = block_mask(packed(lengths, padding=1000), 1)
    assert made is not None
    assert made.full_kv_num_blocks is not None
    looked = int(made.kv_num_blocks.sum() + made.full_kv_num_blocks.sum())
    assert looked <= sum((n / BLOCK + 2) ** 2 for n in lengths) + 1000 / BLOCK + 1
    assert looked < (sum(lengths) / BLOCK) ** 2 / 20


def test_padding_at_the_end_of_rows_is_not_looked_at() -> None:
    n = torch.arange(1024)[None]
    made = block_mask(Where(torch.rand(2, 1024, 2), valid=n < torch.tensor([[1024], [200]])), 2)
    assert made is not None
    assert made.full_kv_num_blocks is not None
    assert made.full_kv_num_blocks[:, 0].tolist() == [[8] * 8, [1, 1] + [0] * 6]
    assert made.kv_num_blocks[:, 0].tolist() == [[0] * 8, [1, 1] + [1] * 6]  # the cut block; then each itself


def test_layers_share_a_mask_and_a_layout_that_is_gone_takes_it_along() -> None:
    where = packed([100, 200])
    made = block_mask(where, 1)
    assert block_mask(where, 1) is made
    assert block_mask(Where(torch.rand(1, 5, 2)), 1) is None


def given(lengths: list[int]) -> tuple[Where, Tensor, IsotropicBias]:
    where = packed(lengths)
    N = where.positions.shape[1]
    bias = IsotropicBias(-torch.rand(1, 2, N), where.positions)
    bias.set_queries(q := torch.randn(1, 2, N, 16))
    return where, q, bias


def test_one_compilation_serves_all_lengths() -> None:
    torch.compiler.reset()
    counter = CompileCounterWithBackend("eager")
    call = torch.compile(flex_attention, dynamic=True, fullgraph=True, backend=counter)
    with torch.no_grad():
        for length in (140, 270, 280, 410, 530, 540):
            where, q, bias = given([length, 130])
            masks: dict[str, Any] = dict(score_mod=flex.score_mod(where, bias, 1), block_mask=block_mask(where, 1))
            exact = attend(q, q, q, where, bias, backend="dense")
            assert torch.allclose(call(q, q, q, **masks), exact, atol=1e-5)
    assert counter.frame_count <= 2


def test_where_nothing_more_is_compiled_the_reference_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, that is: dynamo would run FlexAttention with a table of all pairs, without a word."""
    where, q, bias = given([30, 20])

    def limited(*_: Any, **__: Any) -> Tensor:
        assert torch._dynamo.config.recompile_limit == flex.VARIANTS
        raise FailOnRecompileLimitHit("recompile_limit reached with fullgraph=True")

    monkeypatch.setattr(flex, "compiled", lambda: limited)
    monkeypatch.setattr(backend, "GPU", "cpu")
    exact = attend(q, q, q, where, bias, backend="dense")
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = flex.Flex()(q, q, q, where, bias, 0.25)
    assert torch.equal(found, exact)
    assert [str(one.message) for one in said] == [flex.LIMIT]


def test_where_flex_cannot_be_compiled_the_reference_goes_on_after_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.16: on an H100 Inductor has no configuration for RelativeBias in 16 bits."""
    where, q, bias = given([30, 20])
    attempts = []

    def failing(*_: Any, **__: Any) -> Tensor:
        attempts.append(1)
        raise InductorError(RuntimeError("No valid triton configs"), None)

    monkeypatch.setattr(flex, "FAILED", set())
    monkeypatch.setattr(flex, "compiled", lambda: failing)
    monkeypatch.setattr(backend, "GPU", "cpu")
    exact = attend(q, q, q, where, bias, backend="dense")
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [flex.Flex()(q, q, q, where, bias, 0.25) for _ in range(3)]
    assert all(torch.equal(each, exact) for each in found)
    assert len(attempts) == len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith(f"backend 'flex' must compile FlexAttention for {type(bias).__name__} in float32, got ")
    assert "No valid triton configs" in message
    assert message.endswith("set backend='sdpa' or backend='dense' on the model.")


def test_other_errors_of_flex_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.16"""
    where, q, bias = given([30, 20])

    def failing(*_: Any, **__: Any) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(flex, "compiled", lambda: failing)
    monkeypatch.setattr(backend, "GPU", "cpu")
    with torch.no_grad(), pytest.raises(torch.OutOfMemoryError):
        flex.Flex()(q, q, q, where, bias, 0.25)


def test_dynamo_says_that_its_limit_is_reached_where_a_whole_graph_is_asked_for() -> None:
    torch.compiler.reset()

    def doubled(x: Tensor) -> Tensor:
        return x * 2

    call = torch.compile(doubled, fullgraph=True, dynamic=False, backend="eager")
    with torch._dynamo.config.patch(recompile_limit=2):
        for n in (2, 3):
            call(torch.zeros(n))
        with pytest.raises(FailOnRecompileLimitHit):
            call(torch.zeros(4))
