"""ViTs with timm's names: learned position embedding, class token, registers, layer scale.

DeiT and DINOv2 too. DeiT III's class token has no position embedding, and neither have DINOv2's register tokens.
"""

from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, Part, State, StateDictReader

EPS = 1e-6
UNUSED = r"mask_token"  # used only in training


def convert(state_dict: State, head_dim: int, model: str = "a ViT as timm's") -> Imported:
    reader = StateDictReader(state_dict, model)
    dim, class_token = vit.width(reader, "patch_embed.proj"), "cls_token" in reader
    rows = [
        reader.take(name, 1, None, dim) for name in ("cls_token", "reg_token", "register_tokens") if name in reader
    ]  # in the order of tokens
    entries = sum(row.shape[1] for row in rows)
    grid, prefix, table = vit.position_table(reader, tuple(dict.fromkeys((0, min(1, entries), entries))), dim)
    encoding = dict(type="LearnableAbsolute", grid=grid, class_entries=prefix)
    body = vit.backbone(reader, dim, head_dim, encoding, eps=EPS, more={"encoding.table": table})
    if "norm_pre.weight" in reader:
        body = Part(body.config | dict(initial_norm=True), body.weights | reader.pair("norm_pre", "initial_norm", dim))
    adapter = vit.patches(reader, "patch_embed.proj", *rows, class_token=class_token)
    parts = {"modalities.image": adapter, "backbone": body}
    parts |= vit.classifier(reader, dim, "class" if class_token else "mean")
    return Imported(parts, reader.check_unused(UNUSED), vit.assumed(head_dim, EPS))
