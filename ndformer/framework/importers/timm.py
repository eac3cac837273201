"""ViTs by timm's names, which DeiT and DINOv2 share: a learned table of places, class token, registers, layer scale."""

from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, Part, State, Taken

LICENCE = "timm is Apache-2.0; each of its weights has a licence of its own: see its model card"
INSIDE = ("state_dict", "model")
HEAD_DIM = 64
EPS = 1e-6
UNUSED = r"mask_token"  # only training sees it


def convert(given: State, head_dim: int, model: str = "a ViT as timm's") -> Imported:
    taken = Taken(given, model)
    dim, class_token = vit.width(taken, "patch_embed.proj"), "cls_token" in taken
    rows = [
        taken.take(name, 1, None, dim) for name in ("cls_token", "reg_token", "register_tokens") if name in taken
    ]  # in the order of tokens
    entries = sum(row.shape[1] for row in rows)
    grid, prefix, table = vit.grid_of(taken, "pos_embed", tuple(dict.fromkeys((0, min(1, entries), entries))), dim)
    encoding = dict(type="LearnableAbsolute", grid=grid, class_entries=prefix)
    body = vit.backbone(taken, dim, head_dim, encoding, eps=EPS, more={"encoding.table": table})
    if "norm_pre.weight" in taken:
        body = Part(body.config | dict(initial_norm=True), body.weights | taken.pair("norm_pre", "initial_norm", dim))
    adapter = vit.patches(taken, "patch_embed.proj", *rows, class_token=class_token)
    parts = {"modalities.image": adapter, "backbone": body}
    parts |= vit.classifier(taken, dim, "class" if class_token else "mean")
    return Imported(parts, taken.rest(UNUSED), vit.assumed(head_dim, EPS))
