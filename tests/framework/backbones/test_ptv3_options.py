"""Point Transformer V3's own relative positions on every backend, an encoder of single samples, scenes mixed."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.registry import ENCODINGS, MIXERS
from ndformer.framework.tokens import TokenSet, Where

ENCODINGS.get("NoPE")  # the first look-up finds all
FREE = sorted(name for name, kind in ENCODINGS.module_dict.items() if not kind.needs_grid)
SMALL: dict[str, Any] = dict(
    in_channels=4, grid_size=0.05, enc_depths=(1, 1), enc_channels=(16, 32), enc_heads=(1, 2), dec_depths=(1,),
    dec_channels=(16,), dec_heads=(1,), window=16, mlp_ratio=2.0,
)  # fmt: skip
RPE: dict[str, Any] = dict(encoding=dict(type="RelativeBias", reach=3), positions="grid", stage_scale=True)


def small(**options: Any) -> PTv3:
    torch.manual_seed(0)
    return PTv3(**SMALL | options)


def cloud(n: int, seed: int = 0, size: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator), torch.rand(n, 3, generator=generator) * size + seed


def packed(*clouds: tuple[Tensor, Tensor]) -> TokenSet:
    x, r = (torch.cat(t)[None] for t in zip(*clouds))
    segment = torch.repeat_interleave(torch.arange(len(clouds)), torch.tensor([len(c[0]) for c in clouds]))
    return TokenSet(x, Where(r, segment=segment[None]))


def with_tables(backend: str) -> PTv3:
    model = small(**RPE, backend=backend, drop_path=0.0, shuffle="never")
    for name, table in model.named_parameters():
        if "tables" in name:
            nn.init.normal_(table)
    return model.double()


@pytest.mark.parametrize("backend", ["auto", "dense", "sdpa", "flex"])
def test_relative_positions_of_the_paper_work_with_every_backend(backend: str) -> None:
    """bias of i, j: the sum over axes of the head's table at the voxels' difference, cut off at the reach."""
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


@torch.no_grad()
@pytest.mark.parametrize("name", FREE)
def test_the_encoder_alone_depends_on_no_batch_mates(name: str) -> None:
    model = small(encoding=dict(type=name), cpe="none", dec_depths=(), dec_channels=(), dec_heads=()).eval()
    clouds = [cloud(60), cloud(5, seed=1, size=0.2), cloud(33, seed=2)]
    together = model(packed(*clouds))
    assert together.where.valid is not None
    for own, features, valid in zip(clouds, together.features, together.where.valid):
        alone = model(packed(own)).features[0]
        torch.testing.assert_close(features[valid], alone, rtol=1e-5, atol=1e-5 * float(alone.abs().max()))


def test_mixed_scenes_lie_in_one_grid() -> None:
    """Two scenes in one place share voxels, whatever number a voxel had in its own scene."""
    one, two = (torch.cat([r, x], 1) for x, r in (cloud(40, size=0.2), cloud(40, seed=1, size=0.2)))
    two[:, :3] -= 0.93  # 0.07 beyond the first
    mix: Any = MIXERS.create(dict(type="Mix3D", p=1.0))
    inputs, _ = mix(dict(points=[one, two]), [torch.zeros(40), torch.zeros(40)])
    (both,) = inputs["points"]
    model, seen = small().eval(), []
    model.stem.register_forward_hook(lambda module, given, out: seen.append(given[1]))
    model(TokenSet(both[None, :, 3:], Where(both[None, :, :3])))
    voxels = (both[:, :3].double() / 0.05).floor().long()
    assert torch.equal(seen[0].grid, voxels - voxels.amin(0))
    assert len(seen[0]) == len(voxels.unique(dim=0)) < len(voxels)
