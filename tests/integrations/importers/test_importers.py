"""Imported weights give the outputs of plain torch with the original names, for each source."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.importer import IMPORTERS
from tests.integrations.importers import plain
from tests.integrations.importers.given import (
    CLS,
    DEPTH,
    GAMMA,
    GRID,
    HEAD,
    HEADS,
    IMAGES,
    LS,
    PATCH,
    TABLES,
    D,
    N,
    R,
    before,
    patches,
    vit,
)
from tests.integrations.importers.plain import TIMM, Names


def alike(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", TABLES)
def test_learned_tables(case, converted):
    source, s = TABLES[case]
    x, table = patches(s, IMAGES), s["pos_embed"]
    registers = s.get("reg_token", s.get("register_tokens", torch.zeros(1, 0, D)))
    cls = s.get("cls_token", torch.zeros(1, 0, D))
    entries = table.shape[1] - N
    if entries == 1:  # of the class token, registers come behind it later
        x = before(cls, x) + table
        x = torch.cat([x[:, :1], registers.expand(2, -1, -1), x[:, 1:]], dim=1)
    else:
        x = before(cls, registers, x) + table if entries else before(cls, registers, x + table)
    names = LS if "blocks.0.ls1.gamma" in s else GAMMA if "blocks.0.gamma_1" in s else TIMM
    x = plain.norm(s, "norm", plain.blocks(s, x, HEADS, 1e-6, names), 1e-6)
    model, said = converted(source, dict(model=s), "--head-dim", "16")
    alike(model.features(IMAGES).features, x)
    if "head.weight" in s:
        pooled = x[:, 0] if cls.shape[1] else x[:, registers.shape[1] :].mean(1)
        alike(model(IMAGES), F.linear(pooled, s["head.weight"], s["head.bias"]))
    assert f"unused: {'mask_token' if 'mask_token' in s else 'nothing'}\n" in said
    assert "LayerNorm with eps 1e-06" in said
    assert f"license of {source}: " in said


def test_a_norm_before_the_blocks_stays_there(converted):
    s = vit(**CLS, pos_embed=(1, N + 1, D), **{"norm_pre.weight": (D,), "norm_pre.bias": (D,)})
    x = plain.norm(s, "norm_pre", before(s["cls_token"], patches(s, IMAGES)) + s["pos_embed"], 1e-5)
    model, _ = converted("timm", s, "--head-dim", "16")
    alike(model.features(IMAGES).features, plain.norm(s, "norm", plain.blocks(s, x, HEADS, 1e-5), 1e-5))


def spun(q: Tensor, angle: Tensor) -> Tensor:
    """Rotate channel pairs (2i, 2i + 1) of all tokens after the class token by angles (H or 1, N, h / 2)."""
    pairs = torch.view_as_complex(q[:, :, 1:].double().unflatten(-1, (-1, 2)).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    return torch.cat([q[:, :, :1], turned.to(q.dtype)], dim=2)


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_rope_vit(mixed, table, converted):
    more = {"pos_embed": (1, N, D)} if table else {}
    s = vit(GAMMA, **CLS, **HEAD, **more)
    if mixed:
        s["freqs"] = torch.randn(2, DEPTH, D // 2, generator=torch.Generator().manual_seed(3))
        s |= {"freqs_t_x": GRID[:, 1].float(), "freqs_t_y": GRID[:, 0].float()}
    base = 100 ** -(torch.arange(4).double() / 4)  # of a head of 16: four pairs for each axis

    def turn(q, layer):
        if not mixed:
            angle = torch.cat([GRID[:, 1:] * base, GRID[:, :1] * base], dim=1)[None]
        else:
            fx, fy = s["freqs"][:, layer].double().view(2, HEADS, 1, 8)
            angle = GRID[:, 1:] * fx + GRID[:, :1] * fy
        return spun(q, angle)

    x = patches(s, IMAGES) + (s["pos_embed"] if table else 0)
    x = plain.norm(s, "norm", plain.blocks(s, before(s["cls_token"], x), HEADS, 1e-6, GAMMA, turn), 1e-6)
    model, said = converted("rope-vit", dict(model=s), "--head-dim", "16")
    alike(model.features(IMAGES).features, x)
    alike(model(IMAGES), F.linear(x[:, 0], s["head.weight"], s["head.bias"]))
    assert f"unused: {'freqs_t_x, freqs_t_y' if mixed else 'nothing'}" in said
    assert "license of rope-vit: Apache-2.0\n" in said


@pytest.mark.parametrize("rounded", [False, True])
def test_dinov3(rounded, converted):
    s = vit(LS, **CLS, storage_tokens=(1, R, D), mask_token=(1, D))
    periods = 100 ** (2 * torch.arange(4.0) / 8)
    s["rope_embed.periods"] = periods.bfloat16().float() if rounded else periods
    keys = torch.cat([torch.ones(D), torch.zeros(D), torch.ones(D)])
    masked = {f"blocks.{i}.attn.qkv.bias": s[f"blocks.{i}.attn.qkv.bias"] * keys for i in range(DEPTH)}
    s |= {f"{name}_mask": keys for name in masked}
    wide = IMAGES[:, :, :12]  # 3 x 4 patches
    rows, columns = (torch.arange(n).double() for n in (3, 4))
    u = torch.cartesian_prod(2 * (rows + 0.5) / 3 - 1, 2 * (columns + 0.5) / 4 - 1)
    angle = 2 * math.pi * u[:, :, None] / s["rope_embed.periods"].double()  # (12, 2, 4)
    angle = angle.flatten(1)  # (12, 8) rows, then columns

    def turn(q, layer):
        a, b = q[:, :, 1 + R :].double().chunk(2, dim=-1)  # channels i and i + 8
        turned = torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)
        return torch.cat([q[:, :, : 1 + R], turned.to(q.dtype)], dim=2)

    x = before(s["cls_token"], s["storage_tokens"], patches(s, wide))
    x = plain.norm(s, "norm", plain.blocks(s | masked, x, HEADS, 1e-5, LS, turn), 1e-5)
    model, said = converted("dinov3", s, "--head-dim", "16")
    alike(model.features(wide).features, x)
    assert ("learned=True" in said) == rounded
    assert "license of dinov3: the DINOv3 License" in said
    assert "unused: mask_token\n" in said


@pytest.mark.parametrize("fov", [180, 90, 45])
def test_lookhere(fov, converted):
    s = vit(LS, 48, cls_token=(1, 1, 48), **{"head.fc1.weight": (9, 48), "head.fc1.bias": (9,)})
    dy, dx = (GRID[None] - GRID[:, None]).unbind(-1)  # (query, key)
    up, down, left, right = dy <= 0, dy >= 0, dx <= 0, dx >= 0
    above, below, before_, behind = dy <= -dx.abs(), dy >= dx.abs(), dx <= -dy.abs(), dx >= dy.abs()
    if fov == 180:
        seen = 2 * [up, down, left, right]
        slopes = 4 * [1 / 2] + 4 * [1 / 4]
    elif fov == 90:
        seen = [up & left, up & right, down & left, down & right, above, below, before_, behind]
        slopes = 8 * [1 / 2]
    else:
        seen = [above & left, below & left, before_ & up, behind & up]
        seen += [above & right, below & right, before_ & down, behind & down]
        slopes = 8 * [1 / 2]
    seen += 4 * [torch.ones_like(up)]
    slopes += [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    distance = (dy**2 + dx**2).sqrt()

    def bias(y, layer):
        deep = (1.5, 0.5)[layer]
        maps = [torch.where(see, -deep * slope * distance, -math.inf) for see, slope in zip(seen, slopes)]
        return F.pad(torch.stack(maps), (1, 0, 1, 0)).float()  # nothing for the class token

    x = before(s["cls_token"], patches(s, IMAGES))
    x = plain.norm(s, "norm", plain.blocks(s, x, 12, 1e-5, LS, bias=bias), 1e-5)
    model, said = converted("lookhere", s, "--head-dim", "4", "--fov", str(fov))
    alike(model.features(IMAGES).features, x)
    assert "unused: head.fc1.weight, head.fc1.bias\n" in said
    assert "license of lookhere: MIT\n" in said


THEIRS = Names("encoder.layers.{}.", "attention.qkv_proj", "attention.out_proj", "ffn.fc1", "ffn.fc2")


@pytest.mark.parametrize("trained", ["", "classifier.", "classifier._orig_mod."])
@pytest.mark.parametrize("dims", [2, 3])
def test_pape(dims, trained, converted):
    m, kernel = 5, (PATCH,) * 2 if dims == 2 else (2, PATCH, PATCH)
    more = {"cls": (1, 1, D), "embedding.weight": (D, 3, *kernel), "embedding.bias": (D,)}
    for name in ("encoder.norm_pre", "encoder.norm_post"):
        more |= {f"{name}.weight": (D,), f"{name}.bias": (D,)}
    more |= {"classifier.weight": (5, D), "classifier.bias": (5,)}
    for i in range(DEPTH):
        at = f"encoder.layers.{i}.attention.position_encoder."
        more |= {f"{at}position.weight": (HEADS * m, dims), f"{at}ab.weight": (2 * HEADS * m, D)}
    s = plain.weights(D, DEPTH, THEIRS) | plain.drawn({name: torch.empty(shape) for name, shape in more.items()}, 1)
    times = torch.arange(3.0)
    if dims == 2:
        inputs, data = IMAGES, IMAGES
        r = GRID.flip(1).float() + 1  # column, row
    else:
        data = torch.randint(0, 255, (2, 6, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
        mean, std = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))
        inputs = ((data / 255 - mean[:, None, None]) / std[:, None, None]).transpose(1, 2)
        r = torch.cartesian_prod(times, torch.arange(4.0), torch.arange(4.0)) + 1
    r = F.pad(r, (0, 0, 1, 0))  # the class token at 0
    conv = F.conv2d if dims == 2 else F.conv3d
    x = conv(inputs, s["embedding.weight"], s["embedding.bias"], stride=kernel).flatten(2).transpose(1, 2)

    def bias(y, layer):
        at = f"encoder.layers.{layer}.attention.position_encoder."
        places = (r @ s[f"{at}position.weight"].T).view(-1, HEADS, m)
        ds = places[:, None] - places[None]  # s_i - s_j: (i, j, H, m)
        a, b = (y @ s[f"{at}ab.weight"].T).view(2, -1, 2, HEADS, m).unbind(2)  # (B, i, H, m)
        terms = torch.einsum("bihm,ijhm->bhij", b, ds) - torch.einsum("bihm,ijhm->bhij", F.softplus(a), ds**2)
        return terms / math.sqrt(D // HEADS)

    x = plain.norm(s, "encoder.norm_pre", before(s["cls"], x), 1e-5)
    x = plain.norm(s, "encoder.norm_post", plain.blocks(s, x, HEADS, 1e-5, THEIRS, bias=bias), 1e-5)
    s = {trained + name: value for name, value in s.items()}
    model, said = converted("pape", s, "--head-dim", "16")
    alike(model.features(data).features, x)
    name = f"{trained}classifier."
    alike(model(data), F.linear(x[:, 0], s[f"{name}weight"], s[f"{name}bias"]))
    assert "all rights are reserved" in said
    assert "unused: nothing\n" in said


@pytest.mark.parametrize("averaged", [False, True])
def test_vjepa2(converted, averaged):
    s = vit(LS, **{"patch_embed.proj.weight": (D, 3, 2, PATCH, PATCH)})
    s = {name: value for name, value in s.items() if ".ls" not in name}
    data = torch.randint(0, 255, (2, 6, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    mean, std = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))
    inputs = ((data / 255 - mean[:, None, None]) / std[:, None, None]).transpose(1, 2)
    x = F.conv3d(inputs, s["patch_embed.proj.weight"], s["patch_embed.proj.bias"], stride=(2, PATCH, PATCH))
    r = torch.cartesian_prod(torch.arange(3), torch.arange(4), torch.arange(4)).double()
    each = 2 * (16 // 3 // 2)  # channels of an axis: 4 of the 16

    def turn(q, layer):
        out = q.clone()
        for c in range(3 * each):
            axis, channel = divmod(c, each)
            angle = r[:, axis] * 10000 ** -((channel % (each // 2)) / (each / 2))  # tiled
            across = -q[..., c + 1] if c % 2 == 0 else q[..., c - 1]  # neighbors
            out[..., c] = q[..., c] * angle.cos() + across * angle.sin()
        return out

    x = plain.blocks(s, x.flatten(2).transpose(1, 2), HEADS, 1e-6, turn=turn)
    saved: dict[str, Any] = dict(encoder={f"module.backbone.{name}": value for name, value in s.items()}, epoch=3)
    saved["encoder"] |= {"module.backbone.pos_embed": torch.zeros(1, 9, D)}
    if averaged:
        average, others = saved["encoder"], {name: torch.zeros_like(value) for name, value in saved["encoder"].items()}
        saved |= dict(encoder=others, target_encoder=average)
    model, said = converted("vjepa2", saved, "--head-dim", "16")
    alike(model.features(data).features, plain.norm(s, "norm", x, 1e-6))
    assert "license of vjepa2: MIT" in said
    assert "unused: pos_embed\n" in said


@pytest.mark.parametrize(
    "source, dim, heads", [("timm", 1280, 16), ("deit", 1280, 16), ("timm", 1152, 16), ("timm", 128, 2)]
)
def test_wide_models_have_the_heads_of_published_ones(source, dim, heads):
    s = vit(TIMM, dim, True, cls_token=(1, 1, dim), pos_embed=(1, N + 1, dim))
    assert IMPORTERS.get(source).convert(s, 64).parts["backbone"].config["heads"] == heads
