"""Point Transformer V3: serialized windows of points, in any number of dimensions."""
