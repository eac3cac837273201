"""Models of cameras and LiDAR: UniTR, its map seen from above, and heads that find boxes in space."""
