"""Position encodings: the two base classes, composition, scaling to larger inputs, and coverage reports."""

from ndformer.framework.encoding.base import PositionEncoding
from ndformer.framework.encoding.layer import LayerEncoding

__all__ = ["LayerEncoding", "PositionEncoding"]
