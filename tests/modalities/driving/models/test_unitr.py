"""UniTR against a slow implementation of its published flow, in float64: set by set, token by token."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.registry import BACKBONES
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.driving.models.unitr.network import UniTR
from ndformer.modalities.driving.models.unitr.places import Flat
from tests.modalities.driving.models.test_unitr_sets import slow

SMALL: dict[str, Any] = dict(dim=16, heads=2, view=(4, 7), corner=(-6.0, -3.0), cell=0.5, window=(6, 4), size=5)
LEARNED: dict[str, Any] = dict(
    encoding=dict(type="LearnableMLP", norm="batch"), positions="cells", sensor_encodings=True, view_axis=True
)
PARABOLIC: dict[str, Any] = dict(encoding=dict(type="PaPE", m=4))


def tokens(seed: int = 0, pillars: tuple[int, ...] = (23, 9), views: int = 2, dim: int = 16) -> Any:
    """Return padded pillars, then the patches of all cameras; some share a cell."""
    torch.manual_seed(seed)
    rows, columns = SMALL["view"]
    N, M = max(pillars), views * rows * columns
    place = torch.zeros(len(pillars), N + M, 7)
    valid = torch.ones(len(pillars), N + M, dtype=torch.bool)
    for b, count in enumerate(pillars):
        valid[b, count:N] = False
        place[b, :count, :2] = torch.randperm(24 * 12)[:count, None].float()
        cell = place[b, :count, 0].clone()
        place[b, :count, 0] = (cell // 12 + 0.5) * 0.5 - 6
        place[b, :count, 1] = (cell % 12 + 0.5) * 0.5 - 3
        place[b, :count, 2] = torch.randint(0, views, (count,))
        place[b, :count, 3] = (torch.rand(count) * 3 - 1) * rows
        place[b, :count, 4] = (torch.rand(count) * 3 - 1) * columns
    grid = torch.cartesian_prod(torch.arange(views), torch.arange(rows), torch.arange(columns)).float()
    place[:, N:, 2:5] = grid + torch.tensor([0, 0.5, 0.5])
    place[:, N:, 0] = (torch.randint(0, 24, (len(pillars), M)) + 0.5) * 0.5 - 6
    place[:, N:, 1] = (torch.randint(0, 12, (len(pillars), M)) + 0.5) * 0.5 - 3
    place[:, N:, 5:] = torch.randn(len(pillars), M, 2)
    kind = (torch.arange(N + M) >= N).long().expand(len(pillars), -1)
    return TokenSet(torch.randn(len(pillars), N + M, dim), Where(place, valid=valid), kind)


def network(seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    net: Any = UniTR(**SMALL | options)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        for name, statistic in net.named_buffers():
            if name.endswith(("running_mean", "running_var")):  # of batch norms
                statistic.add_(0.5 * torch.rand_like(statistic))
    return net.eval()


class Slow:
    """The flow of section 3.4, with the weights of a network in float64."""

    def __init__(self, net: Any) -> None:
        self.net = copy.deepcopy(net).double()
        self.published = net.integer_cells

    def __call__(self, given: Any) -> Tensor:
        out = torch.zeros_like(given.features, dtype=torch.float64)
        kinds = given.modality.tolist()
        for b in range(len(out)):  # every sample by itself
            real = [n for n in range(out.shape[1]) if given.where.valid[b, n]]
            self.place = given.where.positions[b, real].double().tolist()
            self.kind = [kinds[b][n] for n in real]
            x = given.features[b, real].double()
            for k, (name, block) in enumerate(zip(self.net.kinds, self.net.blocks)):
                y = x
                for i, layer in enumerate(block.layers):
                    y = self.layer(y, layer, name, k, i)
                x = self.each(block.norms, y + x)
            out[b, real] = x
        return out

    def each(self, parts: Any, x: Tensor) -> Tensor:
        return torch.stack([parts[kind](row) for kind, row in zip(self.kind, x)])

    def layer(self, x: Tensor, layer: Any, name: str, k: int, i: int) -> Tensor:
        y = x + self.attention(x, layer.attention, name, k, i)
        y = torch.stack([layer.own[kind].norm1(row) for kind, row in zip(self.kind, y)])
        y = torch.stack([layer.own[kind].norm2(row + layer.own[kind].mlp(row)) for kind, row in zip(self.kind, y)])
        return layer.norm(y + x)

    def plane(self, name: str, n: int) -> tuple[float, float]:
        """Return coordinates in cells from the corner of a plane."""
        x, y, _, row, column = self.place[n][:5]
        if name in ("lidar", "bev"):
            return (x - SMALL["corner"][0]) / SMALL["cell"], (y - SMALL["corner"][1]) / SMALL["cell"]
        return (row, column) if name == "camera" else (row + SMALL["view"][0], column + SMALL["view"][1])

    def inside(self, name: str, n: int, i: int) -> list[float]:
        """Return coordinates from the middle of the window: whole cells as published, or meters and patches."""
        at = []
        for c, window in zip(self.plane(name, n), SMALL["window"]):
            c = math.floor(c) if self.published else c
            at.append((c + i * (window // 2)) % window - window / 2)
        scale = SMALL["cell"] if name in ("lidar", "bev") and not self.published else 1.0
        return [scale * c for c in at] + ([0.0] if name == "image" and self.published else [])

    def attention(self, x: Tensor, attention: Any, name: str, k: int, i: int) -> Tensor:
        planes = ["lidar", "camera"] if name == "own" else [name]
        out = torch.zeros_like(x)
        for plane in planes:
            those = [n for n in range(len(x)) if name != "own" or planes[self.kind[n]] == plane]
            cells = [[math.floor(c) for c in self.plane(plane, n)] for n in those]
            views = [0 if plane in ("lidar", "bev") else int(self.place[n][2]) for n in those]
            shift = (SMALL["window"][0] // 2 * i, SMALL["window"][1] // 2 * i)
            sets, _ = slow(cells, views, SMALL["window"], shift, SMALL["size"], 1 - k % 2)
            for one in sets:
                members = [those[t] for t in dict.fromkeys(one)]
                out[members] = self.among(x, members, attention, plane, name, 2 * k + i, i)
        return out

    def among(self, x: Tensor, members: list[int], attention: Any, plane: str, name: str, depth: int, i: int) -> Tensor:
        layers, rows = self.net.layers[depth], x[members]
        qk_input, bias = rows, 0.0
        r = torch.tensor([self.inside(plane, n, i) for n in members], dtype=torch.float64)
        heads, width = attention.heads, attention.head_dim
        if self.published:
            codes = []
            for n in members:
                own = ("lidar", "camera")[self.kind[n]]
                planes = {own: self.inside(own, n, i)} | ({} if name == "own" else {plane: self.inside(plane, n, i)})
                code = sum(layers[p].mlp(torch.tensor([at], dtype=torch.float64))[0] for p, at in planes.items())
                if name == "bev" and own == "camera":
                    code = code + self.net.off.mlp(torch.tensor([self.place[n][5:]], dtype=torch.float64))[0]
                codes.append(code)
            qk_input = rows + torch.stack(codes)
        elif self.net.layers[depth][plane].state_dict():  # PaPE, equations 6 to 9
            pape = layers[plane]
            step = torch.einsum("hmp,ijp->hijm", pape.wp, r - r[:, None])
            a = -F.softplus(torch.einsum("id,hmd->him", rows, pape.wa))
            b = torch.einsum("id,hmd->him", rows, pape.wb)
            bias = (torch.einsum("him,hijm->hij", a, step**2) + torch.einsum("him,hijm->hij", b, step)) / width**0.5
        w, c, d = attention.qkv.weight, attention.qkv.bias, x.shape[1]
        q, key, v = (
            s @ w[j * d : (j + 1) * d].T + c[j * d : (j + 1) * d] for j, s in enumerate((qk_input, qk_input, rows))
        )
        q, key, v = (t.unflatten(1, (heads, width)).transpose(0, 1) for t in (q, key, v))
        y = (q @ key.mT / width**0.5 + bias).softmax(-1) @ v
        return attention.proj(y.transpose(0, 1).flatten(1))


@pytest.mark.parametrize("options", [LEARNED, PARABOLIC, {}], ids=["learned", "PaPE", "none"])
@torch.no_grad()
def test_it_is_the_published_flow(options):
    net, given = network(**options), tokens()
    exact = Slow(net)(given)
    found = net(given).features
    assert (found - exact).abs().max() < 1e-4
    assert exact.abs().max() > 0.5


@pytest.mark.parametrize("options", [LEARNED, PARABOLIC], ids=["learned", "PaPE"])
def test_gradients_are_those_of_the_published_flow(options):
    net, given = network(**options), tokens(pillars=(11,), views=1)
    reference = Slow(net)
    weight = torch.randn(given.features.shape)
    (net(given).features * weight).sum().backward()
    (reference(given) * weight).sum().backward()
    exact = dict(reference.net.named_parameters())
    for name, p in net.named_parameters():
        assert p.grad is not None, name
        assert (p.grad - exact[name].grad).abs().max() <= 2e-4 * max(1.0, exact[name].grad.abs().max().item()), name


def test_it_has_as_many_parameters_as_published():
    net = BACKBONES.create(dict(type="UniTR", **LEARNED))
    patches = 3 * 64 * 128 + 128 + 256
    assert sum(p.numel() for p in net.parameters()) + patches == 2_015_360
    assert sum(p.numel() for p in net.encodings.parameters()) == 0
    learned = sum(p.numel() for part in (net.layers, net.off) for p in part.parameters())
    assert learned == 395_008


@pytest.mark.parametrize("encoding", [None, dict(type="Sincos"), dict(type="PaPE"), dict(type="ALiBi")])
@torch.no_grad()
def test_batch_mates_change_nothing(encoding):
    net, both = network(encoding=encoding), tokens()
    for b, pillars in enumerate((23, 9)):
        keep = [n for n in range(both.features.shape[1]) if both.where.valid[b, n]]
        alone = TokenSet(
            both.features[b : b + 1, keep], Where(both.where.positions[b : b + 1, keep]), both.modality[:1, keep]
        )
        assert torch.allclose(net(alone).features[0], net(both).features[b, keep], atol=2e-5), pillars


@pytest.mark.parametrize("kind", [0, 1])
@torch.no_grad()
def test_one_sensor_alone_is_enough(kind):
    net, both = network(**LEARNED), tokens(pillars=(23,))
    keep = (both.modality[0] == kind).nonzero().squeeze(1)
    one = TokenSet(both.features[:, keep], Where(both.where.positions[:, keep]), both.modality[:, keep])
    assert net(one).features.isfinite().all()
    masked = TokenSet(both.features, Where(both.where.positions, valid=both.modality == kind), both.modality)
    assert torch.allclose(net(masked).features[:, keep], net(one).features, atol=2e-5)
    assert not net(masked).features[:, both.modality[0] != kind].any()


@torch.no_grad()
def test_nothing_and_a_single_token_are_tokens_too():
    for count in (0, 1):
        given = tokens(pillars=(23,))
        some = TokenSet(given.features[:, :count], Where(given.where.positions[:, :count]), given.modality[:, :count])
        assert network(**PARABOLIC)(some).features.shape == (1, count, 16)


def test_checkpointing_changes_no_gradient():
    grads = []
    for checkpointing in (False, True):
        net = network(**PARABOLIC, checkpointing=checkpointing).train()
        net(tokens()).features.square().sum().backward()
        grads.append([p.grad for p in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(blocks=("own", "map")), "blocks expects one or more of 'own', 'image' and 'bev'.*map"),
        (dict(encoding=dict(type="SaPE2")), "SaPE2 needs tokens on a full grid"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UniTR(**SMALL | options)


def test_tokens_of_other_adapters_are_refused():
    with pytest.raises(ValueError, match="UniTR expects tokens at .x, y, view, row.*got 3 position dimensions"):
        network()(TokenSet(torch.zeros(1, 2, 16), Where(torch.zeros(1, 2, 3))))


@pytest.mark.parametrize("options", [PARABOLIC, dict(encoding=dict(type="CoPE")), dict(encoding=dict(type="Sincos"))])
@torch.no_grad()
def test_empty_slots_change_nothing(options):
    """Sets grouped by length, as on a CPU, equal all sets at once, as on a GPU."""
    net, given = network(**options), tokens()
    by_length = net(given).features
    net.needs_all_sets = True
    assert torch.allclose(net(given).features, by_length, atol=1e-5)


@pytest.mark.parametrize("moved", [False, True])
def test_the_camera_axis_is_0(moved):
    """The published code embeds (x, y, 0) in the image plane, not (x, y, -0.5) (issue 44.17)."""
    net, flat = network(**LEARNED), Flat.from_tokens(tokens())
    inside = net._coordinates("image", flat, moved)
    assert inside.shape[1] == 3
    assert not inside[:, 2].any()
    assert not net._uncut("image", flat).positions[..., 2].any()


def test_batch_norm_is_of_all_sets_at_once():
    """Running statistics are those of the coordinates of all pillars."""
    net, given = network(**LEARNED).train(), tokens()
    flat = Flat.from_tokens(given)
    layer: Any = net.layers[0]["lidar"].mlp
    at = net._coordinates("lidar", flat, False)[: flat.pillars]
    x, before = layer[0](at), layer[1].running_mean.clone()
    net(given)
    assert torch.allclose(layer[1].running_mean, 0.9 * before + 0.1 * x.mean(0), atol=1e-5)
