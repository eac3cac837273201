"""Descriptions of molecule files in numbers (ndformer peek)."""
