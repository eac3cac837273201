"""DINOv2: timm's names, register tokens after the class token without a position embedding."""

from ndformer.framework.importers import timm
from ndformer.framework.importers.state_dict import Imported, State

LICENCE = "Apache-2.0"
INSIDE = timm.INSIDE
HEAD_DIM = 64


def convert(state_dict: State, head_dim: int) -> Imported:
    return timm.convert(state_dict, head_dim, "DINOv2")
