"""rope-vit (Heo 2024): DeiT III with axial RoPE or RoPE-Mixed, at times beside a learned table.

Theirs counts x first: in axial RoPE the first half of the channels turns by x, in RoPE-Mixed freqs[0] is of x. Axial
frequencies are not among the weights: base 100, as in all that they published.
"""

from typing import Any

import torch

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, State, Taken, heads_of

LICENCE = "Apache-2.0"
INSIDE = ("state_dict", "model")
HEAD_DIM = 64
EPS = 1e-6
UNUSED = r"freqs_t_[xy]"  # places of the patches


def convert(given: State, head_dim: int) -> Imported:
    taken = Taken(given, "rope-vit")
    dim = vit.width(taken, "patch_embed.proj")
    heads = heads_of(dim, head_dim)
    if head_dim % 4:
        raise DataError(f"rope-vit turns all channels of a head, in fours: {head_dim} do not divide", "--head-dim N")
    table = "pos_embed" in taken
    place = "encoding.parts.1." if table else "encoding."
    encoding: list[dict[str, Any]] = [dict(type="AxialRoPE", axes=(1, 0))]
    more: State = {}
    if "freqs" in taken:
        depth = taken.count(r"blocks\.(\d+)\.")
        freqs = taken.take("freqs", 2, depth, dim // 2).unflatten(-1, (heads, -1))  # (2, depth, H, h / 2)
        turns = torch.stack([freqs[1], freqs[0]], dim=-1)  # (depth, H, h / 2, 2)
        more = {f"blocks.{i}.attention.{place}frequencies": own for i, own in enumerate(turns.contiguous())}
        encoding = [dict(type="RoPEMixed")]
    if table:
        grid, _, more["encoding.parts.0.table"] = vit.grid_of(taken, "pos_embed", (0,), dim)
        encoding.insert(0, dict(type="LearnableAbsolute", grid=grid, class_entries=0))
    rows = taken.take("cls_token", 1, 1, dim)
    one = encoding if table else encoding[0]
    parts = {
        "modalities.image": vit.patches(taken, "patch_embed.proj", rows),
        "backbone": vit.backbone(taken, dim, head_dim, one, eps=EPS, more=more),
    }
    parts |= vit.classifier(taken, dim, "class")
    return Imported(parts, taken.rest(UNUSED), vit.assumed(head_dim, EPS))
