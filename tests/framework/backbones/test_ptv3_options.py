"""Point Transformer V3: the relative positions of its paper on every backend, mixed scenes, and its own layers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.backbones.ptv3.layers import DropPoints, Norm
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.registry import MIXERS
from ndformer.framework.system import processes
from ndformer.framework.tokens import TokenSet, Where
from tests.framework.backbones.test_ptv3 import cloud, packed, small

OPTIONS: dict[str, Any] = dict(
    enc_depths=(1, 1), enc_channels=(16, 32), enc_heads=(1, 2), dec_depths=(1,), dec_channels=(16,), dec_heads=(1,)
)
RPE: dict[str, Any] = dict(encoding=dict(type="RelativeBias", reach=3), positions="grid", stage_scale=True)


def with_tables(backend: str) -> PTv3:
    model = small(**OPTIONS, **RPE, backend=backend, drop_path=0.0, shuffle="never")
    for name, table in model.named_parameters():
        if "tables" in name:
            nn.init.normal_(table)
    return model.double()


@pytest.mark.parametrize("backend", ["auto", "dense", "sdpa", "flex"])
def test_relative_positions_of_the_paper_work_with_every_backend(backend: str) -> None:
    """The bias of i and j is the sum over axes of the table at the clipped difference of their voxels."""
    x, r = cloud(50)
    tokens = packed((x.double(), r.double()), tuple(t.double() for t in cloud(9, seed=1)))  # pyright: ignore[reportArgumentType]
    model, seen = with_tables(backend), []
    stage: Any = model.encoder[1]
    stage.register_forward_hook(lambda module, given, out: seen.append(given))
    reference = with_tables("dense")
    with torch.set_grad_enabled(backend != "flex"):  # which learns on a GPU alone: tests/gpu
        y, expected_features = model(tokens).features, reference(tokens).features
    torch.testing.assert_close(y, expected_features, rtol=1e-9, atol=1e-9)
    _, level = seen[0][:2]
    layer, windows = stage.blocks[0].attention, level.windows(0)
    given = torch.randn(*windows.rows.index.shape, 32, dtype=torch.float64)
    logits = layer.logits(given, windows.where, stage.encoding.prepare(windows.where), parts=True)
    voxels = level.sites.grid[windows.rows.index]  # (R, K, 3) of this stage
    for row, valid in enumerate(windows.rows.valid):
        own = voxels[row, valid]
        steps = (own[None] - own[:, None]).clamp(-3, 3) + 3  # (n, n, 3) from i to j
        expected = torch.stack([table[:, steps[..., p]] for p, table in enumerate(layer.encoding.tables)]).sum(0)
        bias = torch.stack([part for name, part in logits.items() if name not in ("semantic", "mask")]).sum(0)
        torch.testing.assert_close(bias[row][:, valid][:, :, valid], expected)
    if backend == "flex":
        return
    y.square().sum().backward()
    expected_features.square().sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters()):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-9, msg=name)


def test_mixed_scenes_lie_in_one_grid() -> None:
    """Two overlapping scenes share voxels."""
    one, two = (torch.cat([r, x], 1) for x, r in (cloud(40, size=0.2), cloud(40, seed=1, size=0.2)))
    two[:, :3] -= 0.93  # 0.07 beyond the first
    mix: Any = MIXERS.create(dict(type="Mix3D", p=1.0))
    inputs, _ = mix(dict(points=[one, two]), [torch.zeros(40), torch.zeros(40)])
    (both,) = inputs["points"]
    model, seen = small(**OPTIONS).eval(), []
    model.stem.register_forward_hook(lambda module, given, out: seen.append(given[1]))
    model(TokenSet(both[None, :, 3:], Where(both[None, :, :3])))
    voxels = (both[:, :3].double() / 0.05).floor().long()
    assert torch.equal(seen[0].grid, voxels - voxels.amin(0))
    assert len(seen[0]) == len(voxels.unique(dim=0)) < len(voxels)


# ---------------------------------------------------------------------------------------------------- layers


def test_branches_are_left_out_point_by_point() -> None:
    drop, x = DropPoints(0.3), torch.ones(4000, 3)
    assert drop.eval()(x) is x
    y = drop.train()(x)
    kept = y[:, 0] != 0
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.03)
    torch.testing.assert_close(y, kept[:, None].float().expand(-1, 3) / 0.7)  # all channels of a point, or none


def test_processes_leave_out_other_points(monkeypatch) -> None:
    drop, masks = DropPoints(0.3).train(), []
    monkeypatch.setattr(processes, "count", lambda: 2)
    for rank in (0, 1):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        torch.manual_seed(0)  # alike on all processes, as in training
        masks.append(drop(torch.ones(100, 1)) > 0)
    assert 20 < int((masks[0] != masks[1]).sum()) < 70


def test_short_trainings_average_their_statistics() -> None:
    norm, batches = Norm(3), [torch.randn(20, 3) + i for i in range(5)]
    for batch in batches[:3]:
        norm(batch)
    resumed = Norm(3)
    resumed.load_state_dict(norm.state_dict())
    for batch in batches[3:]:
        resumed(batch)
    assert isinstance(resumed.running_mean, Tensor)
    torch.testing.assert_close(resumed.running_mean, torch.stack(batches).mean((0, 1)))
    for _ in range(995):
        resumed(batches[0])
    assert resumed.momentum == 0.01


def test_statistics_follow_weights_that_change_within_a_few_hundred_batches() -> None:
    """With the published momentum alone, a mean that rises to 1 in 250 batches was 0.78 after 300."""
    norm = Norm(1)
    for i in range(300):
        norm(torch.tensor([[-1.0], [1.0]]) + min(1, i / 250))
    assert norm.running_mean is not None
    assert norm.running_mean.item() == pytest.approx(1, abs=0.05)


def test_loaded_statistics_without_a_count_are_complete() -> None:
    torch.manual_seed(0)
    given = Norm(3).state_dict() | dict(running_mean=torch.full((3,), 5.0), running_var=torch.full((3,), 4.0))
    norm = Norm(3)
    norm.load_state_dict(given)
    norm(torch.randn(50, 3))
    assert norm.running_mean is not None
    assert (norm.running_mean - 5.0).abs().max() < 0.1


def test_loading_fresh_weights_resets_the_momentum_of_a_norm() -> None:
    norm = Norm(3)
    for _ in range(1001):
        norm(torch.randn(9, 3))
    assert norm.momentum == 0.01
    norm.load_state_dict(Norm(3).state_dict())
    norm(torch.randn(50, 3) + 5)
    assert norm.running_mean is not None
    assert (norm.running_mean - 5.0).abs().max() < 1.0


def test_packed_samples_that_are_not_in_order_are_refused_without_a_decoder() -> None:
    tokens = packed(cloud(20), cloud(9, seed=1))
    assert tokens.where.segment is not None
    swapped = TokenSet(tokens.features, Where(tokens.where.positions, segment=1 - tokens.where.segment))
    small()(swapped)
    with pytest.raises(ValueError, match="packed samples numbered 0, 1, 2 ... in their order, got other"):
        small(dec_depths=())(swapped)


def test_the_skip_connection_enters_the_first_convolution_of_a_stage_alone() -> None:
    """As the published weights need it."""
    model = small(dec_depths=(2, 1)).eval()
    stage: Any = model.decoder[-1]
    unpooled, inputs, outputs = [], [], []
    stage.resample.register_forward_hook(lambda module, args, out: unpooled.append((args[1], out[1])))
    for block in stage.blocks:
        block.cpe.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
        block.register_forward_hook(lambda module, args, out: outputs.append(out))
    model(packed(cloud(60)))
    ((before, skip),) = unpooled
    for actual, expected in ((skip, stage.resample.skip(before)), (inputs[0], skip), (inputs[1], outputs[0])):
        assert torch.equal(actual, expected)
