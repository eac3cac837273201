"""Descriptions of event files in numbers (tools/peek.py)."""
