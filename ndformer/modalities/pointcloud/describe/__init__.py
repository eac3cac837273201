"""Descriptions of point cloud files in numbers (ndformer peek)."""
