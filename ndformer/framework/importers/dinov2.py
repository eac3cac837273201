"""DINOv2: timm's names, registers behind the class token that have no entry in the table of places."""

from ndformer.framework.importers import timm
from ndformer.framework.importers.state_dict import Imported, State

LICENCE = "Apache-2.0"
INSIDE = timm.INSIDE
HEAD_DIM = 64


def convert(given: State, head_dim: int) -> Imported:
    return timm.convert(given, head_dim, "DINOv2")
