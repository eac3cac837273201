"""UniTR: one transformer over the tokens of a LiDAR and of cameras."""
