"""ViTs with timm's names: timm, DeiT, DINOv2, DINOv3, rope-vit, NaFlexViT and V-JEPA 2."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.importer import Imported, State, StateDictReader, head_count, importer
from ndformer.integrations.importers import vit

PATCHES = "patch_embed.proj"
TIMM_LICENSE = "timm is Apache-2.0; each of its weights has a license of its own: see its model card"
# channels of a head by width, where published models have others than 64
TIMM_HEADS, VJEPA2_HEADS = {1152: 72, 1280: 80, 1408: 88, 1664: 104}, {1280: 80}
BACKBONE = r"^(module\.)?(backbone\.)?"  # prefix of names in files of a larger model


@importer("timm", TIMM_LICENSE)
def timm(state_dict: State, head_dim: int, model: str = "a ViT as timm's") -> Imported:
    """Convert a ViT with a learned position embedding; DeiT and DINOv2 too.

    DeiT III's class token has no position embedding, and neither have DINOv2's register tokens.
    """
    reader = StateDictReader(state_dict, model)
    dim, class_token = vit.width(reader, PATCHES), "cls_token" in reader
    head_dim = _published_head_dim(TIMM_HEADS, dim, head_dim)
    eps = 1e-5 if "norm_pre.weight" in reader else 1e-6  # of timm's CLIP
    names = ("cls_token", "reg_token", "register_tokens")  # in the order of tokens
    rows = [reader.take(name, 1, None, dim) for name in names if name in reader]
    entries = sum(row.shape[1] for row in rows)
    grid, prefix, table = vit.position_table(reader, tuple(dict.fromkeys((0, min(1, entries), entries))), dim)
    encoding = dict(type="LearnableAbsolute", grid=grid, class_entries=prefix)
    parts = {
        "modalities.image": vit.patches(reader, PATCHES, *rows, class_token=class_token),
        "backbone": vit.backbone(reader, dim, head_dim, encoding, eps=eps, more={"encoding.table": table}),
    }
    parts |= vit.classifier(reader, dim, "class" if class_token else "mean")
    return Imported(parts, reader.check_unused("mask_token"), vit.assumed(head_dim, eps))


importer("deit", "Apache-2.0")(partial(timm, model="DeiT"))
importer("dinov2", "Apache-2.0")(partial(timm, model="DINOv2"))


@importer(
    "dinov3",
    "the DINOv3 License, Meta's own: read it before you use or pass on what comes out",
    ("state_dict", "model", "teacher"),
)
def dinov3(state_dict: State, head_dim: int) -> Imported:
    """Convert DINOv3: RoPE over positions from -1 to 1, four register ("storage") tokens, keys without bias."""
    reader = StateDictReader(state_dict, "DINOv3", BACKBONE)
    dim = vit.width(reader, PATCHES)
    _check_head_dim(reader, dim, head_dim)
    rows = [reader.take("cls_token", 1, 1, dim)]
    if "storage_tokens" in reader:
        rows.append(reader.take("storage_tokens", 1, None, dim))
    depth = reader.count(r"blocks\.(\d+)\.")
    for i in range(depth):
        name = f"blocks.{i}.attn.qkv.bias"
        if f"{name}_mask" in reader:  # the mask removes the bias of keys
            bias, mask = reader.take(name, 3 * dim), reader.take(f"{name}_mask", 3 * dim)
            reader.left[name] = torch.where(mask == 1, bias, 0.0)
    encoding, more = _rotations(reader.take("rope_embed.periods", head_dim // 4), depth)
    parts = {
        "modalities.image": vit.patches(reader, PATCHES, *rows),
        "backbone": vit.backbone(reader, dim, head_dim, encoding, eps=1e-5, more=more),
    }
    left = reader.check_unused(r"mask_token|local_cls_norm\.(weight|bias)")  # used only in training
    return Imported(parts, left, vit.assumed(head_dim, 1e-5) + ", places of each axis by itself")


def _rotations(periods: Tensor, depth: int) -> tuple[dict[str, Any], State]:
    """Return the RoPE encoding with these periods (h / 4), with learned frequencies unless they are default."""
    encoding: dict[str, Any] = dict(type="RotaryND", preset="dinov3")
    n = len(periods)
    if torch.allclose(periods.double(), 100.0 ** (torch.arange(n, dtype=torch.float64) / n), rtol=1e-6):
        return encoding, {}
    turns = torch.zeros(1, 2 * n, 2)  # the first half of the pairs rotates by y, the other by x
    turns[0, :n, 0] = turns[0, n:, 1] = 1 / periods
    more = {f"blocks.{i}.attention.encoding.frequencies": turns.clone() for i in range(depth)}
    return encoding | dict(learned=True), more


@importer("rope-vit", "Apache-2.0")
def rope_vit(state_dict: State, head_dim: int) -> Imported:
    """Convert rope-vit (Heo 2024): DeiT III with axial RoPE or RoPE-Mixed, in some models with a table too.

    rope-vit has x first: in axial RoPE the first half of the channels rotates by x, in RoPE-Mixed freqs[0] is for x.
    Axial frequencies are not in the weights; all published models use base 100.
    """
    reader = StateDictReader(state_dict, "rope-vit")
    dim = vit.width(reader, PATCHES)
    heads = _check_head_dim(reader, dim, head_dim)
    configs: list[dict[str, Any]] = [dict(type="AxialRoPE", axes=(1, 0))]
    table = turns = None
    if "freqs" in reader:
        depth = reader.count(r"blocks\.(\d+)\.")
        freqs = reader.take("freqs", 2, depth, dim // 2).unflatten(-1, (heads, -1))  # (2, depth, H, h / 2)
        turns = torch.stack([freqs[1], freqs[0]], dim=-1)  # (depth, H, h / 2, 2)
        configs = [dict(type="RoPEMixed")]
    if "pos_embed" in reader:
        grid, _, table = vit.position_table(reader, (0,), dim)
        configs.insert(0, dict(type="LearnableAbsolute", grid=grid, class_entries=0))
    encoding, more = _table_and_turns(configs, table, turns)
    rows = reader.take("cls_token", 1, 1, dim)
    parts = {
        "modalities.image": vit.patches(reader, PATCHES, rows),
        "backbone": vit.backbone(reader, dim, head_dim, encoding, eps=1e-6, more=more),
    }
    parts |= vit.classifier(reader, dim, "class")
    left = reader.check_unused(r"freqs_t_[xy]")  # positions of the patches
    return Imported(parts, left, vit.assumed(head_dim, 1e-6))


@importer("naflexvit", TIMM_LICENSE)
def naflexvit(state_dict: State, head_dim: int, rope_base: int = 0) -> Imported:
    """Convert timm's NaFlexViT: a ViT for images of any size, with a table, axial RoPE or RoPE-Mixed.

    The patch projection is a linear layer over (row, column, channel) of the pixels. Models that pool the mean have
    their last norm after it. `rope_base` is the base of axial RoPE (in timm: temperature), which has no weights.
    """
    reader = StateDictReader(state_dict, "timm's NaFlexViT")
    _as_convolution(reader, "embeds.proj.weight")
    dim = vit.width(reader, "embeds.proj")
    class_token, mean_norm = "embeds.cls_token" in reader, "fc_norm.weight" in reader
    names = ("embeds.cls_token", "embeds.reg_token")  # in the order of tokens
    rows = [reader.take(name, 1, None, dim) for name in names if name in reader]
    configs: list[dict[str, Any]] = []
    table = turns = None
    assumed = ", positions (row, column)"
    if "embeds.pos_embed" in reader:
        table = reader.take("embeds.pos_embed", 1, None, None, dim)[0]
        configs.append(dict(type="LearnableAbsolute", grid=tuple(table.shape[:2]), class_entries=0))
        table = table.flatten(0, 1)
    if "rope.freqs" in reader:
        depth = reader.count(r"blocks\.(\d+)\.")
        freqs = reader.take("rope.freqs", 2, depth, head_count(dim, head_dim), head_dim // 2)
        turns = freqs.permute(1, 2, 3, 0)  # (depth, H, h / 2, 2)
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
    encoding, more = _table_and_turns(configs, table, turns)
    norm = None if mean_norm else "norm"
    parts = {
        "modalities.image": vit.patches(reader, "embeds.proj", *rows, class_token=class_token),
        "backbone": vit.backbone(reader, dim, head_dim, encoding, eps=1e-6, norm=norm, more=more),
    }
    parts |= vit.classifier(reader, dim, "class" if class_token and not mean_norm else "mean", norm="fc_norm")
    return Imported(parts, reader.check_unused(), vit.assumed(head_dim, 1e-6) + assumed)


@importer("vjepa2", "MIT; parts of its code are Apache-2.0", ("target_encoder", "encoder", "state_dict", "model"))
def vjepa2(state_dict: State, head_dim: int) -> Imported:
    """Convert V-JEPA 2's video encoders: tubelets, no class token, RoPE with tiled frequencies and adjacent pairs.

    Of a pretraining checkpoint it is the average over training steps, the target encoder, which its authors evaluate.
    """
    reader = StateDictReader(state_dict, "V-JEPA 2", BACKBONE)
    dim, dims = vit.width(reader, PATCHES), reader.left[f"{PATCHES}.weight"].dim()
    if dims != 5:
        raise DataError(
            f"{PATCHES}.weight: expected 5 dimensions, as in V-JEPA 2's video encoders, got {dims}. Image encoders "
            "cannot be converted"
        )
    head_dim = _published_head_dim(VJEPA2_HEADS, dim, head_dim)
    encoding = dict(type="RotaryND", preset="vjepa2")
    parts = {
        "modalities.video": vit.tubelets(reader, PATCHES, dim),
        "backbone": vit.backbone(reader, dim, head_dim, encoding, eps=1e-6, position_dims=3),
    }
    left = reader.check_unused("pos_embed")  # sinusoidal embeddings that are not used
    return Imported(parts, left, vit.assumed(head_dim, 1e-6))


def _published_head_dim(widths: dict[int, int], dim: int, head_dim: int) -> int:
    """Return the channels of a head of published models of a width, unless others than 64 are requested."""
    return widths.get(dim, 64) if head_dim == 64 else head_dim


def _check_head_dim(reader: StateDictReader, dim: int, head_dim: int) -> int:
    """Return the number of heads, or raise DataError unless a head rotates pairs of channels by two axes."""
    heads = head_count(dim, head_dim)
    if head_dim % 4:
        raise DataError(f"{reader.model}: expected a head width divisible by 4, got {head_dim}", "--head-dim N")
    return heads


def _table_and_turns(
    configs: list[dict[str, Any]], table: Tensor | None, turns: Tensor | None
) -> tuple[list[dict[str, Any]] | dict[str, Any], State]:
    """Return the encoding of one or two parts, and its weights from a table and frequencies (depth, H, h / 2, 2)."""
    first, last = ("encoding.parts.0.", "encoding.parts.1.") if len(configs) == 2 else ("encoding.", "encoding.")
    weights = {} if table is None else {f"{first}table": table}
    for i, layer in enumerate(() if turns is None else turns.contiguous()):
        weights[f"blocks.{i}.attention.{last}frequencies"] = layer
    return configs if len(configs) == 2 else configs[0], weights


def _as_convolution(reader: StateDictReader, name: str) -> None:
    """Make the linear patch projection (dim, patch patch channels) a convolution (dim, channels, patch, patch)."""
    weight = reader.left.get(name, torch.empty(0))
    for channels in (3, 1) if weight.dim() == 2 else ():
        patch = math.isqrt(weight.shape[1] // channels)
        if patch > 0 and patch * patch * channels == weight.shape[1]:
            reader.left[name] = torch.einsum("dyxc->dcyx", weight.unflatten(1, (patch, patch, channels))).contiguous()
            return
