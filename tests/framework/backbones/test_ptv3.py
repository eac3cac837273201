"""Point Transformer V3: windows, batches, layouts, encodings and what it refuses. Against the published code:
test_ptv3_golden.py."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.backbones.ptv3.points import layout
from ndformer.framework.errors import DataError
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.sparse import Sites, SubMConv3d
from ndformer.framework.tokens import TokenSet, Where

ENCODINGS.get("NoPE")  # the first look-up finds all
FREE = sorted(name for name, kind in ENCODINGS.module_dict.items() if not kind.needs_grid)
SMALL: dict[str, Any] = dict(
    in_channels=4,
    grid_size=0.05,
    enc_depths=(1, 2, 1),
    enc_channels=(16, 32, 32),
    enc_heads=(1, 2, 2),
    dec_depths=(1, 1),
    dec_channels=(16, 32),
    dec_heads=(1, 2),
    window=16,
    mlp_ratio=2.0,
)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def small(seed: int = 0, **options: Any) -> PTv3:
    torch.manual_seed(seed)
    return PTv3(**SMALL | options)


def cloud(n: int, size: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return features and positions of points on a curved sheet."""
    generator = torch.Generator().manual_seed(seed)
    r = torch.rand(n, 3, generator=generator) * size
    r[:, 2] = r[:, 0] * r[:, 1] / size
    return torch.randn(n, 4, generator=generator), r + seed


def packed(*clouds: tuple[Tensor, Tensor]) -> TokenSet:
    x, r = (torch.cat(t)[None] for t in zip(*clouds))
    segment = torch.repeat_interleave(torch.arange(len(clouds)), torch.tensor([len(c[0]) for c in clouds]))
    return TokenSet(x, Where(r, segment=segment[None]))


def padded(*clouds: tuple[Tensor, Tensor]) -> TokenSet:
    x, r = (torch.nn.utils.rnn.pad_sequence(list(t), batch_first=True) for t in zip(*clouds))
    n = torch.tensor([len(c[0]) for c in clouds])
    return TokenSet(x, Where(r, valid=torch.arange(x.shape[1]) < n[:, None]))


# ---------------------------------------------------------------------------------------------------- windows


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 5))
def test_windows_are_runs_of_a_sample_and_the_last_borrows(counts: list[int], window: int) -> None:
    slots, valid, home = layout(torch.tensor(counts), counts, window)
    rows, start = [], 0
    for n in counts:
        for first in range(0, n, window):
            own = list(range(first, min(first + window, n)))
            if n > window:  # the same slots of the window before
                own += [first - window + slot for slot in range(len(own), window)]
            rows.append([start + i for i in own])
        start += n
    assert [[int(i) for i in s[v]] for s, v in zip(slots, valid)] == rows
    assert slots.flatten()[home].tolist() == list(range(sum(counts)))
    assert all((home // slots.shape[1] == 0).tolist()[: min(window, counts[0])])


def direct(x: Tensor, block: Any, heads: int) -> Tensor:
    """Compute the attention within one row by its formula."""
    q, k, v = (x @ block.attention.qkv.weight.T + block.attention.qkv.bias).unflatten(-1, (3, heads, -1)).unbind(1)
    out = [(q[:, h] @ k[:, h].T / q.shape[-1] ** 0.5).softmax(-1) @ v[:, h] for h in range(heads)]
    return torch.cat(out, -1) @ block.attention.proj.weight.T + block.attention.proj.bias


def test_a_block_attends_within_its_windows() -> None:
    model = small().double().eval()
    seen: list[Any] = []
    model.encoder[0].blocks[0].register_forward_hook(lambda module, given, out: seen.append((given, out)))
    model(packed(*[(x.double(), r.double()) for x, r in (cloud(40), cloud(9, seed=1))]))
    (x, level, curve, _, _), out = seen[0]
    block: Any = model.encoder[0].blocks[0]
    x = x + block.cpe(x, level.sites)
    attended = torch.full_like(x, torch.nan)
    for row, valid in zip(level.windows(curve).rows.index, level.windows(curve).rows.valid):
        new = row[valid][attended[row[valid], 0].isnan()]
        y = direct(block.norm1(x[row[valid]]), block, heads=1)
        attended[new] = y[: len(new)]
    x = x + attended
    torch.testing.assert_close(x + block.mlp(block.norm2(x)), out)


# ---------------------------------------------------------------------------------------------------- batches


@torch.no_grad()
@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize(
    "options", [dict(cpe="xcpe"), dict(cpe="none"), dict(cpe="none", dec_depths=())], ids=["xcpe", "none", "encoder"]
)
def test_a_sample_has_the_same_features_alone_and_in_a_batch(name: str, options: dict[str, Any]) -> None:
    model = small(encoding=dict(type=name), bits=12, **options).eval()
    clouds = [cloud(90), cloud(11, size=0.3, seed=1), cloud(60, size=3.0, seed=2)]
    together: Any = model(packed(*clouds))
    if model.decoder:
        rows = together.features[0].split([90, 11, 60])
    else:  # one padded row per sample
        rows = [features[valid] for features, valid in zip(together.features, together.where.valid)]
    for own, features in zip(clouds, rows):
        alone = model(packed(own)).features[0]
        torch.testing.assert_close(features, alone, rtol=1e-5, atol=1e-5 * float(alone.abs().max()))


@torch.no_grad()
def test_samples_of_one_voxel_stay_separate_in_every_stage() -> None:
    """One bit per axis is enough for the voxels, but each of the two poolings takes three bits of a code."""
    model = small(bits=None).eval()
    clouds = [cloud(5, size=0.01), cloud(7, size=0.01, seed=1)]
    together = model(packed(*clouds)).features[0].split([5, 7])
    for own, features in zip(clouds, together):
        torch.testing.assert_close(features, model(packed(own)).features[0])


@pytest.mark.parametrize("name", FREE)
def test_every_encoding_trains(name: str) -> None:
    model = small(encoding=dict(type=name), drop_path=0.1)
    model(packed(cloud(60), cloud(20, seed=1))).features.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("dec", [True, False])
def test_padded_and_packed_give_the_same(dec: bool) -> None:
    model = (small() if dec else small(dec_depths=())).eval()
    clouds = [cloud(50), cloud(20, seed=1)]
    a, b = model(packed(*clouds)), model(padded(*clouds))
    if dec:
        torch.testing.assert_close(a.features[0, :50], b.features[0])
        torch.testing.assert_close(a.features[0, 50:], b.features[1, :20])
        assert bool((b.features[1, 20:] == 0).all())
    else:  # one row per sample, whatever came
        torch.testing.assert_close(a.features, b.features)
        assert a.features.shape[0] == 2
        assert a.features.shape[2] == model.dim == 32
        assert a.where.valid is not None
        voxels = [(r.double() / 0.05).floor() for _, r in clouds]
        assert a.where.valid.sum(1).tolist() == [len(((v - v.amin(0)) / 4).floor().unique(dim=0)) for v in voxels]


def test_features_are_where_the_points_were() -> None:
    """Features are in the order of the points."""
    model = small().eval()
    x, r = cloud(50)
    voxels = (r / 0.05).floor()
    keep = torch.tensor([i for i in range(50) if not (voxels[:i] == voxels[i]).all(1).any()])  # ties have an order
    x, r = x[keep], r[keep]
    turned = torch.randperm(len(x))
    a, b = model(packed((x, r))).features[0], model(packed((x[turned], r[turned]))).features[0]
    torch.testing.assert_close(a[turned], b)


def test_the_bits_of_a_code_change_no_z_curve() -> None:
    x = packed(cloud(50), cloud(40, seed=1))
    features = [small(curves=("z", "z-trans"), bits=bits).eval()(x).features for bits in (None, 9, 16)]
    torch.testing.assert_close(features[0], features[1])
    torch.testing.assert_close(features[0], features[2])


# ---------------------------------------------------------------------------------------------------- options


def test_curves_are_shuffled_in_training_only_unless_asked() -> None:
    x = packed(cloud(120))

    def twice(training: bool, **options: Any) -> bool:
        model = small(drop_path=0.0, **options).train(training)
        return torch.equal(model(x).features, model(x).features)

    assert twice(False)
    assert not twice(True)
    assert not twice(False, shuffle="always")
    assert twice(True, shuffle="never")


@pytest.mark.parametrize("positions", ["metric", "grid"])
@pytest.mark.parametrize("stage_scale", [False, True])
def test_positions_passed_to_encodings(positions: Any, stage_scale: bool) -> None:
    model = small(positions=positions, stage_scale=stage_scale, encoding=dict(type="Sincos")).eval()
    levels: list[Any] = []
    for stage in model.encoder:
        stage.register_forward_hook(lambda module, given, out: levels.append(given[1]))
    x, r = cloud(60)
    model(packed((x, r)))
    voxels = (r.double() / 0.05).floor()
    voxels = voxels - voxels.amin(0)
    for s, level in enumerate(levels):
        if s > 0:  # the mean of what the cell holds in the stage before
            coarse = (voxels / 2).floor()
            cells = coarse.unique(dim=0)
            r, voxels = torch.stack([r[(coarse == cell).all(1)].mean(0) for cell in cells]), cells
        assert len(level.places) == len(r)
        for i, (place, voxel) in enumerate(zip(level.places, level.sites.grid)):
            own = i if s == 0 else (voxels == voxel).all(1).nonzero().item()
            expected = r[own] if positions == "metric" else voxel * 2.0**s
            torch.testing.assert_close(place, expected / (2**s if stage_scale else 1), atol=1e-5, rtol=1e-5)


def test_windows_are_centered_for_translation_invariant_encodings() -> None:
    x, r = cloud(60)
    for name, centered in (("PaPE", True), ("Sincos", False)):
        model = small(encoding=dict(type=name)).eval()
        seen: list[Any] = []
        model.encoder[0].register_forward_hook(lambda module, given, out, seen=seen: seen.append(given[1]))
        model(packed((x, r + 100)))
        assert (float(seen[0].windows(0).where.positions.abs().max()) < 2) is centered


def test_windows_are_moved_by_whole_units() -> None:
    """Differences between positions stay exact."""
    x, r = cloud(60, size=20.0)
    model = small(encoding=dict(type="PaPE")).eval()
    seen: list[Any] = []
    model.encoder[0].register_forward_hook(lambda module, given, out: seen.append(given[1]))
    model(packed((x, r + 7.3)))
    windows = seen[0].windows(1)
    moved = (r + 7.3)[windows.rows.index] - windows.where.positions
    assert (moved == moved[:, :1].round()).all()
    means = torch.stack([own[valid].mean(0) for own, valid in zip(windows.where.positions, windows.rows.valid)])
    assert float(means.abs().max()) <= 0.5 + 1e-3


def test_each_block_of_a_stage_follows_the_next_curve() -> None:
    """As published, the curve of a block is its index in its stage."""
    model, seen = small(enc_depths=(2, 5, 1)).eval(), list[int]()
    for stage in [*model.encoder, *model.decoder]:
        for block in stage.blocks:
            block.register_forward_hook(lambda module, given, out: seen.append(given[2]))
    model(packed(cloud(60)))
    assert seen == [0, 1, 0, 1, 2, 3, 0, 0, 0, 0]


def test_a_given_grid_stands_in_for_the_positions() -> None:
    x, r = cloud(60)
    model = small().eval()
    tokens = packed((x, r))
    torch.testing.assert_close(model(tokens, (r / 0.05).floor()[None] + 5).features, model(tokens).features)
    assert not torch.allclose(model(tokens, (r / 0.2).floor()[None]).features, model(tokens).features)


def test_the_published_sizes() -> None:
    with torch.device("meta"):
        segmentation, encoder = PTv3(), PTv3(dec_depths=())
    assert round(sum(p.numel() for p in segmentation.parameters()) / 1e4) == 4617
    assert round(sum(p.numel() for p in encoder.parameters()) / 1e4) == 3867
    assert (segmentation.dim, encoder.dim) == (64, 512)
    convolutions = [m for m in segmentation.modules() if isinstance(m, SubMConv3d)]
    assert round(sum(p.numel() for m in convolutions for p in m.parameters()) / 1e4) == 3083
    rates = [[b.drop_path.rate for b in stage.blocks] for stage in [*segmentation.encoder, *segmentation.decoder]]  # pyright: ignore[reportAttributeAccessIssue,reportGeneralTypeIssues]
    assert sum(rates[:5], []) == pytest.approx(torch.linspace(0, 0.3, 14).tolist())
    assert rates[-1] == pytest.approx([0.3 / 7, 0.0])  # reversed inside the stage


@torch.no_grad()
@pytest.mark.parametrize("name", ["PaPE", "AxialRoPE"])
def test_16_bit(name: str) -> None:
    model = small(encoding=dict(type=name)).eval()
    x = packed(cloud(60))
    exact = model(x).features
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(x).features.float(), exact, rtol=0.1, atol=0.1 * float(exact.abs().max()))


# ---------------------------------------------------------------------------------------------------- bad input


def test_one_voxel_is_enough_where_nothing_is_normalized_over_it() -> None:
    assert small().train()(packed(cloud(1), cloud(30, seed=1))).features.isfinite().all()
    for alone in (packed(cloud(1)), packed(cloud(30, size=0.01))):
        for bits in (16, None):
            assert small(bits=bits).eval()(alone).features.isfinite().all()
        with pytest.raises(DataError, match="lie in one voxel"):
            small().train()(alone)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: TokenSet(t.features[..., :3], t.where), "expects points with in_channels=4 features, got 3"),
        (lambda t: TokenSet(t.features, Where(t.where.positions[..., :2])), "3 dimensions, got 2"),
        (lambda t: TokenSet(t.features, Where(t.where.positions * 1e5)), "voxels of 0.05 along an axis"),
        (lambda t: TokenSet(t.features, Where(t.where.positions / 0)), "not finite"),
        (lambda t: TokenSet(t.features, Where(t.where.positions, placed=torch.ones(1, 9).bool())), "Remove them"),
        (lambda t: TokenSet(t.features, Where(t.where.positions, valid=torch.zeros(1, 9).bool())), "has no points"),
        (lambda t: TokenSet(t.features[:, :0], Where(t.where.positions[:, :0])), "no points"),
    ],
)  # fmt: skip
def test_wrong_inputs_are_reported(change: Any, message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        small().eval()(change(TokenSet(cloud(9)[0][None], Where(cloud(9)[1][None]))))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(enc_heads=(1, 2)), "enc_heads expects one number per stage, 3, got 2"),
        (dict(dec_channels=(16,)), "dec_channels expects one number per stage, 2, got 1"),
        (dict(bits=30), "bits must be from 2, one per pooling, to 21"),
        (dict(grid_size=0.0), "grid_size must be above 0"),
        (dict(curves=("peano",)), "no curve is called 'peano'"),
    ],
)
def test_wrong_sizes_are_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**options)


def test_an_encoding_for_full_grids_is_refused() -> None:
    grid = type("Grid", (ENCODINGS.get("NoPE"),), dict(needs_grid=True))
    with pytest.raises(ValueError, match="Grid needs tokens on a full grid"):
        small(encoding=dict(type=grid))


def test_encoder_and_decoder_share_sites() -> None:
    seen: list[Sites] = []
    model = small().eval()
    for module in model.modules():
        if isinstance(module, SubMConv3d):
            module.register_forward_hook(lambda module, given, out: seen.append(given[1]))
    model(packed(cloud(60)))
    assert len({id(place) for place in seen}) == 3
    assert len(seen) == 1 + 4 + 2
