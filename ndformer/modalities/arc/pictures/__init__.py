"""ARC: what grids and their tokens look like."""
