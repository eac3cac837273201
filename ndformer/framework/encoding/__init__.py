"""Position encodings: the two base classes, composition, scaling to larger inputs, and coverage reports."""

from ndformer.framework.encoding.base import LayerEncoding, PositionEncoding

__all__ = ["LayerEncoding", "PositionEncoding"]
