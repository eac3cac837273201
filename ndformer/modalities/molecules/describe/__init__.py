"""Descriptions of molecule files in numbers (tools/peek.py)."""
