"""Descriptions of driving files in numbers (ndformer peek)."""
