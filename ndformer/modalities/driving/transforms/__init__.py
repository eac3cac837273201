"""What happens to a sample of cameras and a LiDAR between disk and model."""
