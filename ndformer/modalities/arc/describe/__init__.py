"""Descriptions of ARC files in numbers (tools/peek.py)."""
