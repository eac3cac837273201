"""Descriptions of event files in numbers (ndformer peek)."""
