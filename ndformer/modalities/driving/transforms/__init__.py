"""Transforms of samples with cameras and a LiDAR."""
