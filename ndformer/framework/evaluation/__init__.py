"""Metrics over exactly one whole dataset split."""
