"""Importers of pretrained weights from other projects, one module per layout, which map names and shapes to ours.

imported = SOURCES["dinov2"].convert(load_tensors(path), head_dim=64)
imported.parts["backbone"].config, imported.parts["backbone"].weights
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ndformer.framework.importers import lookhere, pape, pointcept, vits
from ndformer.framework.importers.state_dict import Imported


@dataclass(frozen=True)
class Source:
    """A project whose weights can be imported."""

    convert: Callable[..., Imported]
    license: str  # of its weights
    inside: tuple[str, ...] = ("state_dict", "model")  # keys under which its files nest the weights
    head_dim: int = 64  # channels of a head, as published


TIMM_LICENSE = "timm is Apache-2.0; each of its weights has a licence of its own: see its model card"
SOURCES: dict[str, Source] = {
    "pointcept": Source(pointcept.convert, "MIT", head_dim=16),
    "timm": Source(vits.timm, TIMM_LICENSE),
    "deit": Source(partial(vits.timm, model="DeiT"), "Apache-2.0"),
    "dinov2": Source(partial(vits.timm, model="DINOv2"), "Apache-2.0"),
    "dinov3": Source(
        vits.dinov3,
        "the DINOv3 License, Meta's own: read it before you use or pass on what comes out",
        ("state_dict", "model", "teacher"),
    ),
    "rope-vit": Source(vits.rope_vit, "Apache-2.0"),
    "naflexvit": Source(vits.naflexvit, TIMM_LICENSE),
    "lookhere": Source(lookhere.convert, "MIT"),
    "pape": Source(
        pape.convert,
        "none is given, so all rights are reserved: ask its authors before you use or pass on what comes out",
    ),
    "vjepa2": Source(vits.vjepa2, "MIT; parts of its code are Apache-2.0", ("encoder", "state_dict", "model")),
}
