"""Datasets packed into tar shards: written by pack.py, read by dataset.py through archive.py."""
