"""Descriptions of image files in numbers (ndformer peek)."""
