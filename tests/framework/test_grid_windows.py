"""Attention within windows of a grid equals attention of each window by itself."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from ndformer.framework import graph
from ndformer.framework.attention_maps import record_attention
from ndformer.framework.grid_windows import grid_windows
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

DIM = 24
FREE = [name for name in ENCODINGS.all() if name not in ("CPE", "LearnableAbsolute")]  # these act outside attention


def grid_positions(grid: tuple[int, ...]) -> torch.Tensor:
    return torch.stack(torch.meshgrid(*(torch.arange(n) for n in grid), indexing="ij"), -1).flatten(0, -2).float()


def new_transformer(encoding: str = "PaPE", window: int | None = 3, dims: int = 2, **options: Any) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(DIM, 2, 2, dims, dict(type=encoding), window=window, **options)
    with torch.no_grad():  # zeros at the start would hide terms
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.eval()


def by_hand(model: Transformer, tokens: TokenSet, grid: tuple[int, ...], size: int) -> torch.Tensor:
    """Apply the blocks to each window as a sample of its own, which is right as long as no block is global."""
    x, r = tokens.features[0], tokens.where.positions[0]
    result = torch.empty_like(x)
    plain = new_transformer(type(model.encoding).__name__, None, len(grid))
    plain.load_state_dict(model.state_dict())
    cells = grid_positions(grid).long()
    for number in (cells // size).unique(dim=0):
        inside = (cells // size == number).all(1)
        shape = tuple((cells[inside].amax(0) - cells[inside].amin(0) + 1).tolist())
        window = TokenSet(x[inside][None], Where(r[inside][None], grid=shape))
        result[inside] = plain(window).features[0]
    return result


@pytest.mark.parametrize("encoding", FREE)
@torch.no_grad()
def test_each_window_is_as_a_sample_of_its_own(encoding: str) -> None:
    model, grid = new_transformer(encoding), (7, 8)
    tokens = TokenSet(torch.randn(1, 56, DIM), Where(grid_positions(grid)[None], grid=grid))
    torch.testing.assert_close(model(tokens).features[0], by_hand(model, tokens, grid, 3), rtol=1e-5, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(grid=st.lists(st.integers(1, 7), min_size=1, max_size=3), size=st.integers(1, 8))
@torch.no_grad()
def test_windows_of_any_grid(grid: list[int], size: int) -> None:
    sides = tuple(grid)
    model = new_transformer("AxialRoPE", size, len(sides))
    r = grid_positions(sides)
    tokens = TokenSet(torch.randn(1, len(r), DIM), Where(r[None], grid=sides))
    torch.testing.assert_close(model(tokens).features[0], by_hand(model, tokens, sides, size), rtol=1e-5, atol=1e-5)


def test_a_window_as_large_as_the_grid_and_global_blocks_change_nothing() -> None:
    where = Where(grid_positions((4, 6))[None], grid=(4, 6))
    tokens = TokenSet(torch.randn(3, 24, DIM), where)
    expected = new_transformer(window=None)(tokens).features
    cases: list[dict[str, Any]] = [dict(window=6), dict(window=2, global_blocks=[0, 1])]
    for options in cases:
        torch.testing.assert_close(new_transformer(**options)(tokens).features, expected, rtol=1e-5, atol=1e-5)
    assert (new_transformer(window=2, global_blocks=[1])(tokens).features - expected).abs().max() > 1e-3


def test_order_and_windows_are_those_of_the_grid() -> None:
    windows = grid_windows(Where(grid_positions((3, 3))[None], grid=(3, 3)), 2, 2)
    assert windows.where.grids == ((2, 2), (2, 1), (1, 2), (1, 1)) * 2
    assert windows.where.segment is not None
    assert windows.where.segment.tolist() == [[0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 4, 4, 5, 5, 6, 6, 7]]
    x = torch.randn(2, 9, 5)
    assert windows.cut(x)[0, :9].equal(x[0, [0, 1, 3, 4, 2, 5, 6, 7, 8]])
    assert windows.join(windows.cut(x), x.shape).equal(x)


def test_windows_keep_objects_and_cameras() -> None:
    objects, cameras = torch.arange(9)[None], torch.randn(2, 9, 4, 4)
    where = Where(grid_positions((3, 3))[None], grid=(3, 3), objects=objects, cameras=cameras)
    windows = grid_windows(where, 2, 2)
    assert windows.where.objects is not None
    assert windows.where.cameras is not None
    assert windows.where.objects.tolist() == [[0, 1, 3, 4, 2, 5, 6, 7, 8] * 2]
    assert windows.where.cameras.equal(cameras[:, [0, 1, 3, 4, 2, 5, 6, 7, 8]].flatten(0, 1)[None])


@pytest.mark.parametrize("drop_path", [0.0, 0.5])
def test_gradients_of_checkpointed_blocks_are_the_same(drop_path: float) -> None:
    """Stochastic depth drops samples, not windows."""
    tokens = TokenSet(torch.randn(4, 20, DIM), Where(grid_positions((4, 5))[None], grid=(4, 5)))
    gradients = []
    for recomputed in (False, True):
        model = new_transformer(drop_path=drop_path, global_blocks=[0]).train()
        for block in model.blocks if recomputed else ():  # as train_cfg.recompute=blocks does
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        torch.manual_seed(1)
        model(tokens).features.square().sum().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients)


def test_recorded_attention_stays_within_windows() -> None:
    model, r = new_transformer("PaPE", global_blocks=[1]), grid_positions((4, 5))[None]
    with record_attention(model) as maps:
        model(TokenSet(torch.randn(1, 20, DIM), Where(r, grid=(4, 5))))
    for layer, window in zip(maps, (3, 9)):
        cells = layer.sample_positions[0] // window
        same = (cells[:, None] == cells[None]).all(-1)
        visible = layer.attention()[0, 0] > 0
        assert torch.equal(visible, same)


@pytest.mark.slow
@pytest.mark.parametrize("ending", graph.ENDINGS)
def test_a_graph_has_windows_of_any_grid(ending: str, tmp_path: Path) -> None:
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    backbone = dict(type="Transformer", dim=DIM, depth=2, heads=2, position_dims=2, window=3, global_blocks=[1])
    model = TokenModel(
        modalities=dict(image=dict(type="ImagePatches", patch=4, class_token=False)),
        backbone=backbone | dict(encoding=dict(type="PaPE")),
        head=dict(type="Classifier", classes=3, pool="mean"),
    ).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    graph.save(tmp_path / f"model{ending}", graph.graph(model, torch.randn(2, 3, 28, 32)))
    answer = graph._runner(tmp_path / f"model{ending}")
    assert answer is not None
    for size in ((8, 20), (28, 32), (40, 12)):
        images = torch.randn(3, 3, *size)
        torch.testing.assert_close(answer(images)["logits"], model(images), rtol=1e-5, atol=1e-5)


def test_tokens_without_a_grid_are_refused_in_a_sentence() -> None:
    r = grid_positions((4, 6))[None]
    model, x = new_transformer(), torch.randn(1, 24, DIM)
    cases = [Where(r), Where(r, grid=(3, 6)), Where(r, valid=torch.ones(1, 24, dtype=torch.bool), grids=((4, 6),))]
    for where in cases:
        with pytest.raises(ValueError, match="window expects the tokens of grids alone.* Set class_token=False"):
            model(TokenSet(x, where))
    wrong: list[dict[str, Any]] = [dict(global_blocks=[2]), dict(window=None, global_blocks=[0])]
    for options in wrong:
        with pytest.raises(ValueError, match="global_blocks must be numbers of blocks from 0 to 1, with a window"):
            new_transformer(**options)
