"""Sparse voxel operations: submanifold convolution and segment reductions."""

from ndformer.framework.sparse.conv import SubMConv3d
from ndformer.framework.sparse.segments import reduce_segments
from ndformer.framework.sparse.sites import Sites
from ndformer.framework.sparse.xcpe import XCPE

__all__ = ["XCPE", "Sites", "SubMConv3d", "reduce_segments"]
