"""DINOv3's ViTs: RoPE over places from -1 to 1, four registers ("storage tokens"), layer scale, keys without a bias."""

from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, State, Taken, heads_of

LICENCE = "the DINOv3 License, Meta's own: read it before you use or pass on what comes out"
INSIDE = ("state_dict", "model", "teacher")
HEAD_DIM = 64
UNUSED = r"mask_token|local_cls_norm\.(weight|bias)"  # only training sees them


def convert(given: State, head_dim: int) -> Imported:
    taken = Taken(given, "DINOv3", r"^(module\.)?(backbone\.)?")
    dim = vit.width(taken, "patch_embed.proj")
    heads_of(dim, head_dim)
    if head_dim % 4:
        raise DataError(f"DINOv3 turns all channels of a head, in fours: {head_dim} do not divide", "--head-dim N")
    rows = [taken.take("cls_token", 1, 1, dim)]
    if "storage_tokens" in taken:
        rows.append(taken.take("storage_tokens", 1, None, dim))
    depth = taken.count(r"blocks\.(\d+)\.")
    for i in range(depth):
        name = f"blocks.{i}.attn.qkv.bias"
        if f"{name}_mask" in taken:  # it takes the bias off keys
            bias, mask = taken.take(name, 3 * dim), taken.take(f"{name}_mask", 3 * dim)
            taken.left[name] = torch.where(mask == 1, bias, 0.0)
    encoding, more = _turns(taken.take("rope_embed.periods", head_dim // 4), depth)
    parts = {
        "modalities.image": vit.patches(taken, "patch_embed.proj", *rows),
        "backbone": vit.backbone(taken, dim, head_dim, encoding, eps=1e-5, more=more),
    }
    return Imported(parts, taken.rest(UNUSED), vit.assumed(head_dim, 1e-5) + ", places of each axis by itself")


def _turns(periods: Tensor, depth: int) -> tuple[dict[str, Any], State]:
    """RoPE with these periods (h / 4): those of base 100, or in each layer what training can go on from."""
    encoding: dict[str, Any] = dict(type="RotaryND", preset="dinov3")
    n = len(periods)
    if torch.allclose(periods.double(), 100.0 ** (torch.arange(n, dtype=torch.float64) / n), rtol=1e-6):
        return encoding, {}
    turns = torch.zeros(1, 2 * n, 2)  # the first half of the pairs turns by y, the other by x
    turns[0, :n, 0] = turns[0, n:, 1] = 1 / periods
    more = {f"blocks.{i}.attention.encoding.frequencies": turns.clone() for i in range(depth)}
    return encoding | dict(learned=True), more
