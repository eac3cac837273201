"""Importers of pretrained weights from other projects, one module per source, which map names and shapes to ours.

imported = SOURCES["dinov2"].convert(load_tensors(path), head_dim=64)
imported.parts["backbone"].config, imported.parts["backbone"].weights
"""

from types import ModuleType

from ndformer.framework.importers import deit, dinov2, dinov3, lookhere, pape, pointcept, rope_vit, timm, vjepa2

SOURCES: dict[str, ModuleType] = {
    "pointcept": pointcept,
    "timm": timm,
    "deit": deit,
    "dinov2": dinov2,
    "dinov3": dinov3,
    "rope-vit": rope_vit,
    "lookhere": lookhere,
    "pape": pape,
    "vjepa2": vjepa2,
}
