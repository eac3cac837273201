"""Datasets packed into tar shards: planned by plan.py, written by cli/shards.py, read by dataset.py and archive.py."""
