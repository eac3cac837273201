"""Descriptions of image files in numbers (tools/peek.py)."""
