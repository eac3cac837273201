"""Pictures of point clouds and their tokens."""
