"""Descriptions of driving files in numbers (tools/peek.py)."""
