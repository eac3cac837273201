"""Descriptions of video files in numbers (ndformer peek)."""
