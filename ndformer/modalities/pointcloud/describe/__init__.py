"""Descriptions of point cloud files in numbers (tools/peek.py)."""
