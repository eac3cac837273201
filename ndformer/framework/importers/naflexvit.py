"""timm's NaFlexViT: a ViT for images of any size, with a table, axial RoPE or RoPE-Mixed over (row, column).

The patch projection is a linear layer over (row, column, channel) of the pixels. Models that pool the mean have their
last norm after it. Axial RoPE has no weights, so its base is an option.
"""

import math
from typing import Any

import torch

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, Part, State, StateDictReader, head_count

EPS = 1e-6
PROJECTION = "embeds.proj"


def convert(state_dict: State, head_dim: int, rope_base: int = 0) -> Imported:
    """Convert weights; `rope_base` is the base (in timm: temperature) of axial RoPE, 0 for none."""
    reader = StateDictReader(state_dict, "timm's NaFlexViT")
    _as_convolution(reader)
    dim = vit.width(reader, PROJECTION)
    class_token, mean_norm = "embeds.cls_token" in reader, "fc_norm.weight" in reader
    names = ("embeds.cls_token", "embeds.reg_token")  # in the order of tokens
    rows = [reader.take(name, 1, None, dim) for name in names if name in reader]
    encoding, more, assumed = _encoding(reader, dim, head_dim, rope_base)
    norm = None if mean_norm else "norm"
    body = vit.backbone(reader, dim, head_dim, encoding, eps=EPS, norm=norm, more=more)
    if "norm_pre.weight" in reader:
        body = Part(body.config | dict(initial_norm=True), body.weights | reader.pair("norm_pre", "initial_norm", dim))
    parts = {"modalities.image": vit.patches(reader, PROJECTION, *rows, class_token=class_token), "backbone": body}
    pool = "class" if class_token and not mean_norm else "mean"
    parts |= vit.classifier(reader, dim, pool, norm="fc_norm")
    return Imported(parts, reader.check_unused(), vit.assumed(head_dim, EPS) + assumed)


def _encoding(reader: StateDictReader, dim: int, head_dim: int, rope_base: int) -> tuple[Any, State, str]:
    """Return the config of the encoding, its weights by their names in the backbone, and what is assumed."""
    configs: list[dict[str, Any]] = []
    table, turns, assumed = None, None, ", positions (row, column)"
    if "embeds.pos_embed" in reader:
        table = reader.take("embeds.pos_embed", 1, None, None, dim)[0]
        configs.append(dict(type="LearnableAbsolute", grid=tuple(table.shape[:2]), class_entries=0))
    if "rope.freqs" in reader:
        depth = reader.count(r"blocks\.(\d+)\.")
        freqs = reader.take("rope.freqs", 2, depth, head_count(dim, head_dim), head_dim // 2)
        turns = freqs.permute(1, 2, 3, 0).contiguous()  # (depth, H, h / 2, 2)
        configs.append(dict(type="RoPEMixed"))
    elif rope_base:
        configs.append(dict(type="AxialRoPE", base=float(rope_base)))
    else:
        assumed += ", no axial RoPE"
    if not configs:
        raise DataError(
            "the file has neither a table nor frequencies: expected the base of its axial RoPE, in timm "
            "rope_temperature",
            "--rope-base N",
        )
    place = "encoding.parts.{}." if len(configs) == 2 else "encoding."
    more = {} if table is None else {place.format(0) + "table": table.flatten(0, 1)}
    for i, layer in enumerate(() if turns is None else turns):
        more[f"blocks.{i}.attention.{place.format(1)}frequencies"] = layer
    return configs if len(configs) == 2 else configs[0], more, assumed


def _as_convolution(reader: StateDictReader) -> None:
    """Make the linear patch projection (dim, patch patch channels) a convolution (dim, channels, patch, patch)."""
    name = f"{PROJECTION}.weight"
    weight = reader.left.get(name, torch.empty(0))
    for channels in (3, 1) if weight.dim() == 2 else ():
        patch = math.isqrt(weight.shape[1] // channels)
        if patch > 0 and patch * patch * channels == weight.shape[1]:
            reader.left[name] = torch.einsum("dyxc->dcyx", weight.unflatten(1, (patch, patch, channels))).contiguous()
            return
