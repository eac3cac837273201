"""Descriptions of ARC files in numbers (ndformer peek)."""
