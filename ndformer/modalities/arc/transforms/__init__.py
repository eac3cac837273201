"""ARC: what happens to a pair of grids between disk and model."""
