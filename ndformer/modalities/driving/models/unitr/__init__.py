"""UniTR: one transformer over LiDAR and camera tokens."""
