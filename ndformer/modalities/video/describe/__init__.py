"""Descriptions of video files in numbers (tools/peek.py)."""
