"""DeiT and DeiT III: timm's names, layer scale as gamma_1 and gamma_2, a class token without an entry in the table."""

from ndformer.framework.importers import timm
from ndformer.framework.importers.state_dict import Imported, State

LICENCE = "Apache-2.0"
INSIDE = timm.INSIDE
HEAD_DIM = 64


def convert(given: State, head_dim: int) -> Imported:
    return timm.convert(given, head_dim, "DeiT")
