"""Encodings that break a promise about values, attention's output or cameras."""
# Broken on purpose:
# pyright: reportIncompatibleMethodOverride=false

from ndformer.encodings.gta import GTA, TransformLayer
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.rotation import rotate


def with_values(values):
    """An encoding that only has LayerEncoding.values(self, v, x, state); state: the sum of coordinates (B, 1, N, 1)."""
    layer = type("Layer", (LayerEncoding,), dict(values=values))
    tables = lambda self, positions, where: positions.sum(-1)[:, None, :, None]
    kind = dict(layer=lambda self, index, depth: layer(), tables=tables, rotation_invariant=False)
    return type("TransformsValues", (PositionEncoding,), kind)


class AbsoluteCameras(GTA):
    """An encoding with the camera itself on queries and keys, and nothing on values and outputs."""

    def __init__(self, dim, heads, position_dims, depth):
        super().__init__(dim, heads, position_dims, depth, cameras=0.5)

    def layer(self, index, depth):
        return AbsoluteCamerasLayer(self.camera_dim, self.halves)


class AbsoluteCamerasLayer(TransformLayer):
    values, output = LayerEncoding.values, LayerEncoding.output

    def qk(self, q, k, x, state):
        return self._transform(q, state.camera, state, -1), self._transform(k, state.camera, state, -1)


BROKEN_VALUES = [
    (
        with_values(lambda layer, v, x, state: rotate(v, state.cos(), state.sin())),
        {"values and output": "output() must undo at the query"},
    ),
    (with_values(lambda layer, v, x, state: v.flip(-1)), {"values and output": "of a token without a position"}),
    (
        with_values(lambda layer, v, x, state: v.to(state.dtype)),
        {"values and output": "values() must return the bfloat16", "half precision": "it stops with RuntimeError"},
    ),
    (AbsoluteCameras, {"cameras move together": "use only relative cameras"}),
]
