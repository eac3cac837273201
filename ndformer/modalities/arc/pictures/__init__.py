"""Pictures of grids and their tokens."""
