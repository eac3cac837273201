"""Rotation of the channels of queries and keys: encodings call it, and framework/kernels chooses how to compute it."""

from ndformer.framework.kernels.rotation import rotate as rotate
from ndformer.framework.kernels.rotation import rotate_every_two as rotate_every_two
