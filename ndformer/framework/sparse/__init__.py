"""Sparse voxel operations: submanifold convolution and segment reductions."""

from ndformer.framework.sparse.conv import XCPE, SubMConv3d
from ndformer.framework.sparse.segments import reduce_segments
from ndformer.framework.sparse.sites import Sites

__all__ = ["XCPE", "Sites", "SubMConv3d", "reduce_segments"]
