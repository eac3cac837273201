"""Transforms of point cloud samples."""
