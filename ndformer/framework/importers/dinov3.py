"""DINOv3's ViTs: RoPE over positions from -1 to 1, four register ("storage") tokens, layer scale, keys without bias."""

from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, State, StateDictReader, head_count

UNUSED = r"mask_token|local_cls_norm\.(weight|bias)"  # used only in training


def convert(state_dict: State, head_dim: int) -> Imported:
    reader = StateDictReader(state_dict, "DINOv3", r"^(module\.)?(backbone\.)?")
    dim = vit.width(reader, "patch_embed.proj")
    head_count(dim, head_dim)
    if head_dim % 4:
        raise DataError(f"DINOv3: expected a head width divisible by 4, got {head_dim}", "--head-dim N")
    rows = [reader.take("cls_token", 1, 1, dim)]
    if "storage_tokens" in reader:
        rows.append(reader.take("storage_tokens", 1, None, dim))
    depth = reader.count(r"blocks\.(\d+)\.")
    for i in range(depth):
        name = f"blocks.{i}.attn.qkv.bias"
        if f"{name}_mask" in reader:  # the mask removes the bias of keys
            bias, mask = reader.take(name, 3 * dim), reader.take(f"{name}_mask", 3 * dim)
            reader.left[name] = torch.where(mask == 1, bias, 0.0)
    encoding, more = _turns(reader.take("rope_embed.periods", head_dim // 4), depth)
    parts = {
        "modalities.image": vit.patches(reader, "patch_embed.proj", *rows),
        "backbone": vit.backbone(reader, dim, head_dim, encoding, eps=1e-5, more=more),
    }
    return Imported(parts, reader.check_unused(UNUSED), vit.assumed(head_dim, 1e-5) + ", places of each axis by itself")


def _turns(periods: Tensor, depth: int) -> tuple[dict[str, Any], State]:
    """Return the RoPE encoding with these periods (h / 4), with learned frequencies unless they are default."""
    encoding: dict[str, Any] = dict(type="RotaryND", preset="dinov3")
    n = len(periods)
    if torch.allclose(periods.double(), 100.0 ** (torch.arange(n, dtype=torch.float64) / n), rtol=1e-6):
        return encoding, {}
    turns = torch.zeros(1, 2 * n, 2)  # the first half of the pairs rotates by y, the other by x
    turns[0, :n, 0] = turns[0, n:, 1] = 1 / periods
    more = {f"blocks.{i}.attention.encoding.frequencies": turns.clone() for i in range(depth)}
    return encoding | dict(learned=True), more
