"""rope-vit (Heo 2024): DeiT III with axial RoPE or RoPE-Mixed, in some models with learned absolute embeddings too.

rope-vit has x first: in axial RoPE the first half of the channels rotates by x, in RoPE-Mixed freqs[0] is for x. Axial
frequencies are not in the weights; all published models use base 100.
"""

from typing import Any

import torch

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, State, StateDictReader, head_count

EPS = 1e-6
UNUSED = r"freqs_t_[xy]"  # positions of the patches


def convert(state_dict: State, head_dim: int) -> Imported:
    reader = StateDictReader(state_dict, "rope-vit")
    dim = vit.width(reader, "patch_embed.proj")
    heads = head_count(dim, head_dim)
    if head_dim % 4:
        raise DataError(f"rope-vit: expected a head width divisible by 4, got {head_dim}", "--head-dim N")
    table = "pos_embed" in reader
    place = "encoding.parts.1." if table else "encoding."
    encoding: list[dict[str, Any]] = [dict(type="AxialRoPE", axes=(1, 0))]
    more: State = {}
    if "freqs" in reader:
        depth = reader.count(r"blocks\.(\d+)\.")
        freqs = reader.take("freqs", 2, depth, dim // 2).unflatten(-1, (heads, -1))  # (2, depth, H, h / 2)
        turns = torch.stack([freqs[1], freqs[0]], dim=-1)  # (depth, H, h / 2, 2)
        more = {f"blocks.{i}.attention.{place}frequencies": layer for i, layer in enumerate(turns.contiguous())}
        encoding = [dict(type="RoPEMixed")]
    if table:
        grid, _, more["encoding.parts.0.table"] = vit.position_table(reader, (0,), dim)
        encoding.insert(0, dict(type="LearnableAbsolute", grid=grid, class_entries=0))
    rows = reader.take("cls_token", 1, 1, dim)
    config = encoding if table else encoding[0]
    parts = {
        "modalities.image": vit.patches(reader, "patch_embed.proj", rows),
        "backbone": vit.backbone(reader, dim, head_dim, config, eps=EPS, more=more),
    }
    parts |= vit.classifier(reader, dim, "class")
    return Imported(parts, reader.check_unused(UNUSED), vit.assumed(head_dim, EPS))
