"""Small random weights in the layout of each source."""

import re

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.integrations.importers import plain
from tests.integrations.importers.plain import TIMM, Names, State

D, HEADS, DEPTH, PATCH, SIDE = 32, 2, 2, 4, 4
LS, GAMMA = Names(scales=("ls1.gamma", "ls2.gamma")), Names(scales=("gamma_1", "gamma_2"))
IMAGES = torch.randn(2, 3, SIDE * PATCH, SIDE * PATCH, generator=torch.Generator().manual_seed(7))
GRID = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).double()  # (16, 2) row, column


def vit(names: Names = TIMM, dim: int = D, bias: bool = True, /, **more: tuple[int, ...]) -> State:
    """Return weights of a ViT with further entries; tokens are small, so that the norms' eps matters."""
    s = plain.weights(dim, DEPTH, names, bias)
    own = {"patch_embed.proj.weight": (dim, 3, PATCH, PATCH), "patch_embed.proj.bias": (dim,)}
    own |= {"norm.weight": (dim,), "norm.bias": (dim,)} | more
    s |= plain.drawn({name: torch.empty(shape) for name, shape in own.items()}, 1)
    for name in s:
        if re.match(r"patch_embed|cls|reg|storage|pos_embed", name):
            s[name] = s[name] * 0.02
    return s


def patches(s: State, images: Tensor) -> Tensor:
    x = F.conv2d(images, s["patch_embed.proj.weight"], s.get("patch_embed.proj.bias"), stride=PATCH)
    return x.flatten(2).transpose(1, 2)


def before(*rows_and_x: Tensor) -> Tensor:
    *rows, x = rows_and_x
    return torch.cat([*(row.expand(len(x), -1, -1) for row in rows), x], dim=1)


N, R = SIDE**2, 3
CLS = {"cls_token": (1, 1, D)}
HEAD = {"head.weight": (5, D), "head.bias": (5,)}
TABLES: dict[str, tuple[str, State]] = {
    "timm": ("timm", vit(**CLS, pos_embed=(1, N + 1, D), **HEAD)),
    "timm, layer scale, no bias of q, k, v": ("timm", vit(LS, D, False, **CLS, pos_embed=(1, N + 1, D))),
    "timm, all registers in the table": ("timm", vit(**CLS, reg_token=(1, R, D), pos_embed=(1, N + 1 + R, D), **HEAD)),
    "timm, no class token": ("timm", vit(reg_token=(1, R, D), pos_embed=(1, N, D), **HEAD)),
    "DeiT": ("deit", vit(**CLS, pos_embed=(1, N + 1, D), **HEAD)),
    "DeiT III": ("deit", vit(GAMMA, **CLS, pos_embed=(1, N, D), **HEAD)),
    "DINOv2": ("dinov2", vit(LS, **CLS, pos_embed=(1, N + 1, D), mask_token=(1, D))),
    "DINOv2 with registers": ("dinov2", vit(LS, **CLS, register_tokens=(1, R, D), pos_embed=(1, N + 1, D))),
}


def naflexvit(names: Names = LS, grid: tuple[int, int] | None = (3, 5), pool_norm: bool = True, mixed=False) -> State:
    """Return weights in the layout of timm's NaFlexViT: with a class token, or two registers and the norm of means."""
    rows = {"reg_token": (1, 2, D)} if pool_norm else CLS
    s = vit(names, **rows, **HEAD)
    renamed = {
        name: f"embeds.{name.removeprefix('patch_embed.')}" for name in s if re.match("patch_embed|cls|reg", name)
    }
    renamed |= {f"norm.{part}": f"fc_norm.{part}" for part in ("weight", "bias") if pool_norm}
    s = {renamed.get(name, name): value for name, value in s.items()}
    s["embeds.proj.weight"] = s["embeds.proj.weight"].permute(0, 2, 3, 1).flatten(1)  # (D, PATCH PATCH 3)
    more = {} if grid is None else {"embeds.pos_embed": (1, *grid, D)}
    more |= {"rope.freqs": (2, DEPTH, HEADS, D // HEADS // 2)} if mixed else {}
    weights = plain.drawn({name: torch.empty(shape) for name, shape in more.items()}, 2)
    return s | {name: 0.1 * value if "embed" in name else value for name, value in weights.items()}
