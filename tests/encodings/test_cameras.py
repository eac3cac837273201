"""GTA and PRoPE with cameras: only relative cameras count, and which part of a camera each of them reads."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.encodings.gta import rigid
from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Rows, TokenSet, Where, join
from ndformer.framework.transformer import Transformer
from tests.encodings.references.gta import random_cameras
from tests.framework.helpers import CAMERAS

CONFIGS: list[Any] = [
    dict(type="GTA", cameras=0.5),
    dict(type="PRoPE"),
    [dict(type="PRoPE"), dict(type="ALiBi")],
]
DIM, HEADS, N = 64, 2, 8


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_encodings_that_use_cameras_are_listed() -> None:
    """Those that use them by default, and those with an option `cameras`."""
    place = dict(dim=DIM, heads=HEADS, position_dims=2, depth=1)
    found = set()
    for name, kind in ENCODINGS.module_dict.items():
        options = {option for base in kind.__mro__ for option in inspect.signature(base).parameters}
        if "cameras" in options or ENCODINGS.create(dict(type=name), **place).uses_cameras:
            found.add(name)
    assert found == set(CAMERAS)
    assert all(ENCODINGS.create(dict(type=name, **CAMERAS[name]), **place).uses_cameras for name in CAMERAS)


def network(cfg: Any, dims: int = 2) -> Transformer:
    return Transformer(DIM, 2, HEADS, position_dims=dims, encoding=cfg).double()


def tokens(cameras: Tensor | None, **where: Any) -> TokenSet:
    """Tokens of one batch, the same with each call."""
    generator = torch.Generator().manual_seed(0)
    x, r = (torch.rand(2, N, n, generator=generator, dtype=torch.float64) for n in (DIM, 2))
    return TokenSet(x, Where(6 * r, cameras=cameras, **where))


def moves() -> Tensor:
    """One rigid motion of space for each row."""
    return rigid(random_cameras(2, 1))


@pytest.mark.parametrize("cfg", CONFIGS, ids=str)
def test_outputs_do_not_change_when_all_cameras_move_together(cfg: Any) -> None:
    net, cameras = network(cfg), random_cameras(2, N)
    before = net(tokens(cameras)).features
    assert (net(tokens(cameras @ moves())).features - before).abs().max() < 1e-9
    moved = cameras.clone()
    moved[:, 0] = moved[:, 0] @ moves()[:, 0]
    assert (net(tokens(moved)).features - before).abs().max() > 1e-2


@pytest.mark.parametrize("cfg", CONFIGS[:2], ids=str)
def test_values_and_logits_depend_on_relative_cameras(cfg: Any) -> None:
    encoding = build_encoding(cfg, dim=DIM, heads=HEADS, position_dims=2, depth=1).double()
    attention = Attention(DIM, HEADS, encoding.layer(0, 1)).double()
    cameras = random_cameras(2, N)
    turned = cameras.clone()
    turned[:, 1] = turned[:, 1] @ moves()[:, 0]
    both = tokens(cameras), tokens(turned)
    states = [encoding.prepare(given.where) for given in both]
    logits = [attention.logits(given.features, given.where, state) for given, state in zip(both, states)]
    changed = (logits[0] - logits[1]).abs().amax((0, 1))
    assert changed[1].max() > 1e-2
    assert changed[0, 0] == 0
    with torch.no_grad():
        attention.qkv.weight[: 2 * DIM], attention.qkv.bias[: 2 * DIM] = 0, 0  # all keys have the same weight
    outputs = [attention(given.features, given.where, state) for given, state in zip(both, states)]
    assert (outputs[0] - outputs[1]).abs().max() > 1e-2


def test_gta_reads_poses_and_prope_intrinsics_too() -> None:
    cameras = random_cameras(2, N)
    poses = rigid(cameras)
    turns = poses[..., :3, :3]
    torch.testing.assert_close(turns @ turns.mT, torch.eye(3).double().expand(2, N, 3, 3), atol=1e-12, rtol=0)
    for cfg, same in zip(CONFIGS, (True, False)):
        net = network(cfg)
        change = (net(tokens(cameras)).features - net(tokens(poses)).features).abs().max()
        assert change < 1e-10 if same else change > 1e-3


@pytest.mark.parametrize("cfg", CONFIGS, ids=str)
def test_one_camera_is_as_none(cfg: Any) -> None:
    net, one = network(cfg), random_cameras(2, 1).expand(-1, N, -1, -1)
    torch.testing.assert_close(net(tokens(one)).features, net(tokens(None)).features, atol=1e-9, rtol=0)


@pytest.mark.parametrize("cfg", CONFIGS, ids=str)
def test_padding_has_no_camera_and_tokens_without_position_have_the_identity(cfg: Any) -> None:
    net, cameras = network(cfg), random_cameras(2, N)
    valid = torch.arange(N).expand(2, -1) < 6
    placed = torch.arange(N)[None] > 0
    given = tokens(cameras, valid=valid, placed=placed)
    expected = net(given).features
    poisoned = cameras.clone()
    poisoned[:, 6:], poisoned[:, 0] = torch.nan, 0
    found = net(tokens(poisoned, valid=valid, placed=placed)).features
    torch.testing.assert_close(found[:, :6], expected[:, :6], atol=1e-12, rtol=0)
    packed = Where(
        given.where.positions.flatten(0, 1)[None],
        segment=torch.tensor([[0] * N + [1] * N]),
        valid=valid.flatten()[None],
        placed=placed.repeat(1, 2),
        cameras=cameras.flatten(0, 1)[None],
    )
    both = net(TokenSet(given.features.flatten(0, 1)[None], packed)).features.view(2, N, -1)
    torch.testing.assert_close(both[:, :6], expected[:, :6], atol=1e-9, rtol=0)


def test_translations_are_in_the_unit_of_camera_scale() -> None:
    cameras = random_cameras(2, N)
    longer = rigid(cameras)
    longer[..., :3, 3] *= 4
    for cfg in CONFIGS[:2]:
        plain, scaled = network(cfg), network(cfg | dict(camera_scale=0.25))
        scaled.load_state_dict(plain.state_dict())
        torch.testing.assert_close(
            scaled(tokens(longer)).features, plain(tokens(rigid(cameras))).features, atol=1e-9, rtol=0
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_matrices_are_float32_under_autocast(dtype: torch.dtype) -> None:
    net, cameras = network(CONFIGS[1]).float(), random_cameras(2, N)
    given = TokenSet(
        tokens(None).features.float(), Where(tokens(None).where.positions.float(), cameras=cameras.float())
    )
    exact = net(given).features
    with torch.autocast("cpu", dtype):
        found = net(given).features
    assert (found - exact).abs().max() < 0.05


# ------------------------------------------------------------------------------------------------------ tokens


def test_cameras_stay_with_their_tokens() -> None:
    cameras = random_cameras(1, N).float()
    where = Where(torch.zeros(1, N, 2), cameras=cameras)
    rows = Rows(torch.tensor([[3, 1], [0, 5]]), torch.tensor([[True, True], [True, False]]))
    cut = rows.where(where)
    assert cut.cameras is not None
    assert torch.equal(cut.cameras[0, 0], cameras[0, 3])
    both = join(
        TokenSet(torch.zeros(1, N, 4), where), TokenSet(torch.zeros(1, 2, 4), Where(torch.zeros(1, 2, 2)))
    ).where
    assert both.cameras is not None
    assert torch.equal(both.cameras[:, :N], cameras)
    assert torch.equal(both.cameras[0, N], torch.eye(4))
    double = both.to(dtype=torch.float64).cameras
    assert double is not None
    assert double.dtype == torch.float64
    with pytest.raises(ValueError, match=r"cameras must be floating-point matrices \(rows, tokens, 4, 4\)"):
        Where(torch.zeros(1, N, 2), cameras=torch.eye(4)[None])


def test_a_backbone_that_drops_cameras_says_so() -> None:
    positions = torch.zeros(1, 4, 3)
    net = FactorizedTransformer(16, 1, 1, 2, position_dims=3, encoding=dict(type="PRoPE"))
    given = TokenSet(torch.zeros(1, 4, 16), Where(positions, cameras=torch.eye(4).expand(1, 4, 4, 4)))
    with pytest.raises(ValueError, match="expects tokens without cameras for PRoPE"):
        net(given)


@pytest.mark.parametrize("cfg", CONFIGS, ids=str)
def test_an_exported_graph_takes_cameras_of_other_batches(cfg: Any) -> None:
    net = network(cfg).eval()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor, r: Tensor, cameras: Tensor) -> Tensor:
            return self.net(TokenSet(x, Where(r, cameras=cameras))).features

    def inputs(batch: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        return (
            torch.rand(batch, count, DIM).double(),
            torch.rand(batch, count, 2).double(),
            random_cameras(batch, count),
        )

    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("count")}
    graph = torch.export.export(Model(), inputs(2, N), dynamic_shapes=(axes, axes, axes)).module()
    for given in (inputs(2, N), inputs(3, 5)):
        torch.testing.assert_close(graph(*given), Model()(*given))


@pytest.mark.parametrize("options", [dict(learned=True), dict(directions="mixed"), dict(preset="vjepa2")])
def test_what_gta_cannot_do_is_refused(options: Any) -> None:
    with pytest.raises(ValueError, match="GTA has fixed frequencies along fixed directions"):
        build_encoding(dict(type="GTA", **options), dim=DIM, heads=HEADS, position_dims=2, depth=1)


def test_two_encodings_with_cameras_are_refused() -> None:
    shape = dict(dim=48, heads=2, position_dims=2, depth=1)
    parts = [dict(type="PRoPE"), dict(type="GTA", cameras=0.5)]
    with pytest.raises(ValueError, match="at most one encoding can use cameras, got PRoPE and GTA"):
        build_encoding(parts, **shape)
    assert build_encoding([parts[0], dict(type="ALiBi")], **shape).uses_cameras
